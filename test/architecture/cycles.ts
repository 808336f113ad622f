/** Import cycles between files, found as strongly connected components (Tarjan). */
import { posix } from 'node:path';
import type { Import, Source } from './source.ts';
import { productSources } from './source.ts';

type Graph = ReadonlyMap<string, readonly string[]>;

/** Files that cannot be loaded without each other. Types are erased, so they do not count. */
export function cycleViolations(sources: readonly Source[]): string[] {
  const graph = graphOf(sources, ['value']);
  return cyclesIn(graph).map((cycle) => `import cycle: ${cycle.join(', ')}`);
}

/** Cycles through types too, where they tie folders together: worth knowing, not forbidden. */
export function typeCycles(sources: readonly Source[]): string[] {
  const graph = graphOf(sources, ['value', 'type']);
  return cyclesIn(graph)
    .filter((cycle) => new Set(cycle.map((path) => posix.dirname(path))).size > 1)
    .map((cycle) => `type cycle across folders: ${cycle.join(', ')}`);
}

function graphOf(sources: readonly Source[], kinds: readonly Import['kind'][]): Graph {
  return new Map(
    productSources(sources).map(({ path, imports }) => [
      path,
      imports.filter((each) => each.relative && kinds.includes(each.kind)).map((each) => each.target),
    ]),
  );
}

function cyclesIn(graph: Graph): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (path: string): void => {
    order.set(path, order.size);
    lowest.set(path, order.get(path)!);
    stack.push(path);
    for (const target of graph.get(path) ?? []) {
      if (!graph.has(target)) continue;
      if (!order.has(target)) visit(target);
      if (stack.includes(target)) lowest.set(path, Math.min(lowest.get(path)!, lowest.get(target)!));
    }
    if (lowest.get(path) !== order.get(path)) return;
    const component = stack.splice(stack.indexOf(path));
    if (component.length > 1 || graph.get(path)!.includes(path)) cycles.push(component.sort());
  };
  for (const path of graph.keys()) if (!order.has(path)) visit(path);
  return cycles;
}
