/** The rules of the core: what its files may not do, and which of its folders may import which. */
import { isBuiltin } from 'node:module';
import { CORE_FILES, CORE_ORDER, mayImport } from './layout.ts';
import { productSources, type Source } from './source.ts';
import type { Node } from './syntax.ts';

const CORE = 'src/core/';
const coreSources = (sources: readonly Source[]): Source[] =>
  productSources(sources).filter(({ path }) => path.startsWith(CORE));

/** The core does no I/O and never waits, so that a step is a plain function of its event. */
export function purityViolations(sources: readonly Source[]): string[] {
  return coreSources(sources).flatMap(({ path, nodes, imports }) => [
    ...imports
      .filter(({ target }) => isBuiltin(target))
      .map(({ target, line }) => `${path}:${line}: core may not import ${target}`),
    ...nodes.flatMap(({ node, line }) =>
      waitingOf(node).map((word) => `${path}:${line}: core may not use ${word}`),
    ),
  ]);
}

function waitingOf(node: Node): string[] {
  if ('async' in node && node.async === true) return ['async'];
  if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) return ['await'];
  return node.type === 'VariableDeclaration' && node.kind === 'await using' ? ['await'] : [];
}

/** The layer of a path in core; undefined for one that has none, and for a path that is not in core. */
export function coreLayer(path: string): string | undefined {
  if (!path.startsWith(CORE)) return undefined;
  const [first, ...inner] = path.slice(CORE.length).split('/') as [string, ...string[]];
  if (inner.length === 0) return Object.hasOwn(CORE_FILES, first) ? CORE_FILES[first] : undefined;
  return CORE_ORDER.includes(first) ? first : undefined;
}

export function coreOrderViolations(sources: readonly Source[]): string[] {
  return coreSources(sources).flatMap(({ path, imports }) => {
    const layer = coreLayer(path);
    if (layer === undefined) return [`${path}: is in no layer of core`];
    return imports.flatMap(({ target, line }) => {
      const other = coreLayer(target);
      if (other === undefined || mayImport(CORE_ORDER, layer, other)) return [];
      return [`${path}:${line}: core's ${layer} may not import ${target}, which is ${other}`];
    });
  });
}
