/**
 * Time, chance, disk and processes are reached through kit/env only: the simulation replaces that one place,
 * and whatever goes past it cannot be replayed from a seed.
 */
import type { Source } from './source.ts';
import { lineAt, productSources } from './source.ts';

/** Product files that are the edge themselves. */
const EDGE = /^src\/(kit\/env[^/]*\.ts|kit\/env\/.*|cli\/.*)$/;

interface Exception {
  readonly allows: readonly string[];
  readonly reason: string;
}

/** Files that may use what others may not, each with the reason. */
export const EXCEPTIONS: Readonly<Record<string, Exception>> = {
  'src/stores/journal/history-sqlite.ts': {
    allows: ['node:sqlite', 'node:fs'],
    reason: 'the history index is derived and rebuildable; a damaged one is removed and made anew',
  },
  'src/client/client.ts': {
    allows: ['Date.now', 'setTimeout', 'AbortSignal.timeout'],
    reason: 'runs on its own in programs and browsers, where there is no env',
  },
  'src/stores/journal/thread.ts': {
    allows: ['node:worker_threads'],
    reason: 'starts the thread that keeps checkpoints and history off the event loop',
  },
  'src/stores/journal/thread-main.ts': {
    allows: ['node:worker_threads'],
    reason: 'runs on that thread',
  },
  'src/stores/mariadb/leadership.ts': {
    allows: ['node:worker_threads', 'process.hrtime'],
    reason: 'starts the thread that stands in the election, and shares a clock with it',
  },
  'src/stores/mariadb/elector-main.ts': {
    allows: ['node:worker_threads', 'process.hrtime'],
    reason: 'runs on that thread',
  },
  'src/backends/local/command/launcher.ts': {
    allows: ['node:child_process'],
    reason: 'starts the supervisor processes',
  },
  'src/kit/process/identity.ts': {
    allows: ['node:fs'],
    reason: 'asks /proc which process is meant; it is no data of ours',
  },
  'src/kit/folder-watch.ts': {
    allows: ['node:fs'],
    reason: 'watches a folder; looking at it now and then, by the timers of the env, would do as well',
  },
  'src/backends/local/command/remove.ts': {
    allows: ['node:fs'],
    reason: 'removes what a command has left in its own folder',
  },
  'src/backends/local/command/place.ts': {
    allows: ['node:fs'],
    reason: 'runs in a supervisor process, outside the brain',
  },
  'src/backends/local/command/supervisor.ts': {
    allows: ['node:fs', 'node:child_process', 'setTimeout', 'setInterval', 'Date.now'],
    reason: 'runs in a supervisor process, outside the brain',
  },
  'src/backends/local/command/supervisor-main.ts': {
    allows: ['Date.now'],
    reason: 'runs in a supervisor process, outside the brain',
  },
  'src/backends/local/command/demo-main.ts': {
    allows: ['setTimeout'],
    reason: 'runs as a command, outside the brain',
  },
  'src/daemons/pool-manager/processes.ts': {
    allows: ['node:child_process', 'node:fs'],
    reason: 'starts the processes of workers, with their logs, and asks /proc which of them live',
  },
  'src/daemons/pool-manager/program.ts': {
    allows: ['node:child_process'],
    reason: 'runs nvidia-smi',
  },
  'src/daemons/pool-manager/links.ts': {
    allows: ['node:fs'],
    reason: 'asks where links lead; the cache of the hub is made of them, and is no data of ours',
  },
  'src/daemons/worker/openai-upstream.ts': {
    allows: ['node:child_process'],
    reason: 'starts the server behind a worker, outside the brain',
  },
  'src/daemons/worker/ledger.ts': {
    allows: ['node:fs'],
    reason: 'an audit file that several workers append to, beside all data',
  },
};

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

const RANDOM_OF_CRYPTO =
  /\b(randomUUID|randomUUIDv7|randomBytes|randomInt|randomFill(?:Sync)?|getRandomValues|webcrypto)\b/g;

/** Name of what is used → how it looks in code. A name after a dot is somebody's method, such as env.setTimeout. */
const FORBIDDEN_USES: Readonly<Record<string, RegExp>> = {
  'Date.now': /(?<![.\w$])Date\s*\.\s*now\b/g,
  'new Date()': /\bnew\s+Date\b(?!\s*\(\s*[^\s)])|(?<![.\w$]|\bnew\s+)Date\s*\(\s*\)/g,
  'Temporal.Now': /(?<![.\w$])Temporal\s*\.\s*Now\b/g,
  'Math.random': /(?<![.\w$])Math\s*\.\s*random\b/g,
  'performance.now': /(?<![.\w$])performance\s*\.\s*(?:now|timeOrigin)\b/g,
  'process.hrtime': /(?<![.\w$])process\s*\.\s*(?:hrtime|uptime)\b/g,
  setTimeout: /(?<![.\w$])setTimeout\b/g,
  setInterval: /(?<![.\w$])setInterval\b/g,
  setImmediate: /(?<![.\w$])setImmediate\b/g,
  'AbortSignal.timeout': /(?<![.\w$])AbortSignal\s*\.\s*timeout\b/g,
  'crypto randomness': /(?<![.\w$])crypto\s*\.\s*(?:randomUUID|getRandomValues)\b/g,
  globalThis: /(?<![.\w$])globalThis\b/g,
  'process.getBuiltinModule': /\bgetBuiltinModule\b/g,
};

export function ambientViolations(sources: readonly Source[]): string[] {
  return productSources(sources)
    .filter(({ path }) => !EDGE.test(path))
    .flatMap((source) => {
      const allowed = EXCEPTIONS[source.path]?.allows ?? [];
      return [...modulesOf(source), ...usesOf(source)]
        .filter(({ what }) => !allowed.includes(what))
        .map(({ what, line }) => `${source.path}:${line}: uses ${what}; it belongs behind kit/env`);
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

function usesOf({ mask, imports }: Source): Use[] {
  const uses = Object.entries(FORBIDDEN_USES).flatMap(([what, pattern]) => linesOf(what, pattern, mask));
  const crypto = imports.some(({ target, kind }) => kind !== 'type' && withScheme(target) === 'node:crypto');
  return crypto ? [...uses, ...linesOf('crypto randomness', RANDOM_OF_CRYPTO, mask)] : uses;
}

const linesOf = (what: string, pattern: RegExp, mask: string): Use[] =>
  [...mask.matchAll(pattern)].map((match) => ({ what, line: lineAt(mask, match.index) }));
