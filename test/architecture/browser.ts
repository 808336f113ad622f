/** The client runs in browsers: no file that it loads, however indirectly, may import a module of Node. */
import { isBuiltin } from 'node:module';
import { productSources, type Source } from './source.ts';

const CLIENT = 'src/client/';

export function browserViolations(sources: readonly Source[]): string[] {
  return loadedBy(CLIENT, productSources(sources)).flatMap(({ path, imports }) =>
    imports
      .filter(({ target, kind }) => kind !== 'type' && isBuiltin(target))
      .map(({ target, line }) => `${path}:${line}: imports ${target}, and ${CLIENT} loads it in browsers`),
  );
}

function loadedBy(folder: string, sources: readonly Source[]): Source[] {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const loaded = new Set(sources.filter(({ path }) => path.startsWith(folder)));
  // A set is iterated in order of insertion, what is added meanwhile included.
  for (const { imports } of loaded) {
    for (const { target, kind } of imports) {
      const source = byPath.get(target);
      if (source !== undefined && kind !== 'type') loaded.add(source);
    }
  }
  return [...loaded];
}
