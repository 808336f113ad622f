/** Import cycles between files and between folders of core, found as strongly connected components (Tarjan). */
import { posix } from 'node:path';
import { coreLayer } from './core.ts';
import type { Import } from './imports.ts';
import { productSources, type Source } from './source.ts';

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/** Files that cannot be loaded without each other. Types are erased, so they do not count. */
export const valueCycleViolations = (sources: readonly Source[]): string[] =>
  cyclesIn(filesOf(sources, ['value'])).map((cycle) => `import cycle: ${cycle.join(', ')}`);

/** Files that cannot be understood without each other: the cycles that only types close. */
export function typeCycleViolations(sources: readonly Source[]): string[] {
  const known = new Set(cyclesIn(filesOf(sources, ['value'])).map(String));
  return cyclesIn(filesOf(sources, ['value', 'type']))
    .filter((cycle) => !known.has(String(cycle)))
    .map((cycle) => `import cycle through types: ${cycle.join(', ')}`);
}

/** Folders of core that import each other, be it through different files. */
export function coreFolderCycleViolations(sources: readonly Source[]): string[] {
  const graph = new Map<string, Set<string>>();
  for (const [path, targets] of filesOf(sources, ['value', 'type'])) {
    const folder = coreFolder(path);
    if (folder === undefined) continue;
    const others = [...targets].map(coreFolder).filter((each) => each !== undefined && each !== folder);
    graph.set(folder, (graph.get(folder) ?? new Set()).union(new Set(others as string[])));
  }
  return cyclesIn(graph).map((cycle) => `import cycle between folders of core: ${cycle.join(', ')}`);
}

/** A file of core itself counts as a part of its layer. */
function coreFolder(path: string): string | undefined {
  if (!path.startsWith('src/core/')) return undefined;
  const folder = posix.dirname(path);
  return folder === 'src/core' ? `${folder}/${coreLayer(path) ?? posix.basename(path)}` : folder;
}

function filesOf(sources: readonly Source[], kinds: readonly Import['kind'][]): Graph {
  const among = (imports: readonly Import[]): string[] =>
    imports.filter(({ relative, kind }) => relative && kinds.includes(kind)).map(({ target }) => target);
  return new Map(productSources(sources).map(({ path, imports }) => [path, new Set(among(imports))]));
}

function cyclesIn(graph: Graph): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (node: string): void => {
    order.set(node, order.size);
    lowest.set(node, order.get(node)!);
    stack.push(node);
    for (const target of graph.get(node) ?? []) {
      if (!graph.has(target)) continue;
      if (!order.has(target)) visit(target);
      if (stack.includes(target)) lowest.set(node, Math.min(lowest.get(node)!, lowest.get(target)!));
    }
    if (lowest.get(node) !== order.get(node)) return;
    const component = stack.splice(stack.indexOf(node));
    if (component.length > 1 || graph.get(node)!.has(node)) cycles.push(component.sort());
  };
  for (const node of graph.keys()) if (!order.has(node)) visit(node);
  return cycles;
}
