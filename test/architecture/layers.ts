/** Which folder may import which, and what the pure core may not do. */
import type { Import, Source } from './source.ts';
import { lineAt, productSources } from './source.ts';

/** A folder may import itself and the folders before it. The order is that of the design's layout. */
export const FOLDER_ORDER: readonly string[] = [
  'model',
  'kit',
  'config',
  'wire',
  'core',
  'relay',
  'runtime',
  'stores',
  'backends',
  'daemons',
  'agents',
  'adapters',
  'telemetry',
  'api',
  'client',
  'cli',
];

/** Files that compose the whole. */
const ROOT_FILES = ['src/app.ts', 'src/index.ts'];

const folderOf = (path: string): string => path.split('/')[1]!;
const rankOf = (path: string): number => FOLDER_ORDER.indexOf(folderOf(path));

export function layerViolations(sources: readonly Source[]): string[] {
  return productSources(sources).flatMap((source) => {
    if (ROOT_FILES.includes(source.path)) return source.imports.flatMap((each) => outside(source, each));
    if (rankOf(source.path) < 0) return [`${source.path}: is in no folder of the layout`];
    return source.imports.flatMap((each) => [...outside(source, each), ...upwards(source, each)]);
  });
}

function outside({ path }: Source, { target, relative, line }: Import): string[] {
  if (!relative) return [];
  // Read at run time for the version; it lies beside the published folder too.
  if (path === 'src/cli/version.ts' && target === 'package.json') return [];
  if (!target.startsWith('src/')) return [`${path}:${line}: imports ${target}, which is not in src`];
  if (target.endsWith('.test.ts')) return [`${path}:${line}: imports the test ${target}`];
  return target.endsWith('.ts') ? [] : [`${path}:${line}: the import of ${target} does not end in .ts`];
}

function upwards({ path }: Source, { target, relative, line }: Import): string[] {
  if (!relative || !target.startsWith('src/')) return [];
  // `orchd up` puts the server together; everything else in cli talks HTTP like any user.
  if (path === 'src/cli/serve.ts' && target === 'src/app.ts') return [];
  const rank = rankOf(target);
  if (rank >= 0 && rank <= rankOf(path)) return [];
  return [`${path}:${line}: ${folderOf(path)} may not import ${target}`];
}

/** Stores stand beside each other and hand over records: the state and the other stores are no business of theirs. */
export function storeViolations(sources: readonly Source[]): string[] {
  const stores = productSources(sources).filter(
    ({ path }) => path.startsWith('src/stores/') && !knowsAll(path),
  );
  return stores.flatMap(({ path, imports }) =>
    imports
      .filter(({ target }) => isState(target) || (STORE.test(target) && storeOf(target) !== storeOf(path)))
      .map(({ target, line }) => `${path}:${line}: a store may not import ${target}`),
  );
}

/** What all stores may use, and the list of them, lies beside their folders. */
const STORE = /^src\/stores\/(?!migration\/)([^/]+)\//;
const storeOf = (path: string): string | undefined => STORE.exec(path)?.[1];
const isState = (path: string): boolean => ['src/core/state.ts', 'src/core/entry.ts'].includes(path);
/** The list of stores, and the conformance suite, which drives a real engine. */
const knowsAll = (path: string): boolean => /\/(registry|harness)\.ts$|\/conformance\//.test(path);

/** The core does no I/O and never waits, so that a step is a plain function of its event. */
export function coreViolations(sources: readonly Source[]): string[] {
  const core = productSources(sources).filter(({ path }) => path.startsWith('src/core/'));
  return core.flatMap(({ path, mask, imports }) => {
    const waits = [...mask.matchAll(/(?<![.\w$])(await|async)\b(?!\s*:)/g)];
    return [
      ...imports
        .filter(({ target }) => target.startsWith('node:'))
        .map(({ target, line }) => `${path}:${line}: core may not import ${target}`),
      ...waits.map((match) => `${path}:${lineAt(mask, match.index)}: core may not use ${match[1]}`),
    ];
  });
}
