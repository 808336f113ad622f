/**
 * Time, chance, disk and processes are reached through kit/env only: the simulation replaces that one place,
 * and whatever goes past it cannot be replayed from a seed.
 */
import { EXCEPTIONS } from './ambient-exceptions.ts';
import { productSources, type Source } from './source.ts';
import { isMemberName, type Node, nameOf, ownerOf, type VisitedNode } from './syntax.ts';

/** Product files that are the edge themselves. */
const EDGE = /^src\/(kit\/env[^/]*\.ts|kit\/env\/.*|cli\/.*)$/;

const FORBIDDEN_MODULES = new Set([
  'node:fs',
  'node:fs/promises',
  'node:child_process',
  'node:worker_threads',
  'node:sqlite',
  'node:timers',
  'node:timers/promises',
  'node:perf_hooks',
]);

/** Globals by name. A name after a dot is somebody's method, such as env.setTimeout. */
const FORBIDDEN_GLOBALS = new Set(['setTimeout', 'setInterval', 'setImmediate', 'globalThis']);

/** Members of globals → what they are called in a violation. */
const FORBIDDEN_MEMBERS: ReadonlyMap<string, string> = new Map([
  ['Date.now', 'Date.now'],
  ['Temporal.Now', 'Temporal.Now'],
  ['Math.random', 'Math.random'],
  ['performance.now', 'performance.now'],
  ['performance.timeOrigin', 'performance.now'],
  ['process.hrtime', 'process.hrtime'],
  ['process.uptime', 'process.hrtime'],
  ['AbortSignal.timeout', 'AbortSignal.timeout'],
  ['crypto.randomUUID', 'crypto randomness'],
  ['crypto.getRandomValues', 'crypto randomness'],
]);

/** Exports of node:crypto; the rest of that module is plain computation. */
const RANDOM_OF_CRYPTO = new Set([
  'randomUUID',
  'randomUUIDv7',
  'randomBytes',
  'randomInt',
  'randomFill',
  'randomFillSync',
  'getRandomValues',
  'webcrypto',
]);

export function ambientViolations(sources: readonly Source[]): string[] {
  return productSources(sources)
    .filter(({ path }) => !EDGE.test(path))
    .flatMap((source) => {
      const allowed = EXCEPTIONS[source.path]?.allows ?? [];
      const found = [...modulesOf(source), ...usesOf(source)]
        .filter(({ what }) => !allowed.includes(what))
        .map(({ what, line }) => `${source.path}:${line}: uses ${what}; it belongs behind kit/env`);
      return [...new Set(found)];
    });
}

interface Use {
  readonly what: string;
  readonly line: number;
}

const withScheme = (name: string): string => (name.startsWith('node:') ? name : `node:${name}`);

function modulesOf({ imports }: Source): Use[] {
  return imports
    .filter(({ kind, relative }) => kind !== 'type' && !relative)
    .map(({ target, line }) => ({ what: withScheme(target), line }))
    .filter(({ what }) => FORBIDDEN_MODULES.has(what));
}

function usesOf({ nodes, imports }: Source): Use[] {
  const crypto = imports.some(({ target, kind }) => kind !== 'type' && withScheme(target) === 'node:crypto');
  return nodes.flatMap((visited) => {
    const what = usedAt(visited) ?? (crypto ? randomnessAt(visited) : undefined);
    return what === undefined ? [] : [{ what, line: visited.line }];
  });
}

function usedAt(visited: VisitedNode): string | undefined {
  const { node } = visited;
  if (node.type === 'Identifier') {
    if (node.name === 'getBuiltinModule') return 'process.getBuiltinModule';
    return FORBIDDEN_GLOBALS.has(node.name) && !isMemberName(visited) ? node.name : undefined;
  }
  if (readsClock(node)) return 'new Date()';
  const owner = ownerOf(node);
  return owner?.type === 'Identifier' ? FORBIDDEN_MEMBERS.get(`${owner.name}.${nameOf(node)}`) : undefined;
}

/** `new Date`, `new Date()` and `Date()`; with arguments it only converts. */
const readsClock = (node: Node): boolean =>
  (node.type === 'NewExpression' || node.type === 'CallExpression') &&
  node.callee.type === 'Identifier' &&
  node.callee.name === 'Date' &&
  node.arguments.length === 0;

const randomnessAt = ({ node }: VisitedNode): string | undefined =>
  node.type === 'Identifier' && RANDOM_OF_CRYPTO.has(node.name) ? 'crypto randomness' : undefined;
