/** Which folder may import which. */
import type { Import } from './imports.ts';
import { FOLDER_ORDER, mayImport } from './layout.ts';
import { productSources, type Source } from './source.ts';

/** Imports of what is not in src, each with the reason. */
export const OUTSIDE_SRC: Readonly<Record<string, { readonly target: string; readonly reason: string }>> = {
  'src/cli/package-version.ts': {
    target: 'package.json',
    reason: 'read at run time for the version; it lies beside the published folder too',
  },
};

/** The folder of a path below src, and for a file of src itself its name. */
const folderOf = (path: string): string => path.split('/')[1]!.replace(/\.ts$/, '');

export function layerViolations(sources: readonly Source[]): string[] {
  return productSources(sources).flatMap((source) => {
    if (!FOLDER_ORDER.includes(folderOf(source.path)))
      return [`${source.path}: is in no folder of the layout`];
    return source.imports.flatMap((each) => [...outside(source, each), ...upwards(source, each)]);
  });
}

function outside({ path }: Source, { target, relative, line }: Import): string[] {
  if (!relative || OUTSIDE_SRC[path]?.target === target) return [];
  if (!target.startsWith('src/')) return [`${path}:${line}: imports ${target}, which is not in src`];
  if (target.endsWith('.test.ts')) return [`${path}:${line}: imports the test ${target}`];
  return target.endsWith('.ts') ? [] : [`${path}:${line}: the import of ${target} does not end in .ts`];
}

function upwards({ path }: Source, { target, relative, line }: Import): string[] {
  if (!relative || !target.startsWith('src/')) return [];
  if (mayImport(FOLDER_ORDER, folderOf(path), folderOf(target))) return [];
  return [`${path}:${line}: ${folderOf(path)} may not import ${target}`];
}

/** A folder of src/stores that is a store; what all of them may use lies beside these, or in `migration`. */
const STORE = /^src\/stores\/(?!migration\/|conformance\/)([^/]+)\//;
const storeOf = (path: string): string | undefined => STORE.exec(path)?.[1];
/** The list of stores, and the suite that is run on each of them. */
const knowsStores = (path: string): boolean => /^src\/stores\/(registry\.ts$|conformance\/)/.test(path);

/** Stores do not know each other; only their list does. */
export function storeViolations(sources: readonly Source[]): string[] {
  return productSources(sources)
    .filter(({ path }) => path.startsWith('src/stores/') && !knowsStores(path))
    .flatMap(({ path, imports }) =>
      imports
        .filter(({ target }) => STORE.test(target) && storeOf(target) !== storeOf(path))
        .map(({ target, line }) => `${path}:${line}: a store may not import ${target}`),
    );
}
