/** Orchestrators for flow tests, on every store there is, stopped when the test ends. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Backend } from '../../src/core/ports/backend.ts';
import { createOrchestrator, OrchdError, type OrchestratorOptions } from '../../src/index.ts';
import type { Disk, DiskFile, Env, Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import { STORES as REGISTRY } from '../../src/stores/registry.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';

export type StoreName = keyof typeof REGISTRY;

export const STORES = Object.keys(REGISTRY) as readonly StoreName[];
/** Stores that have everything again after a restart. */
export const LASTING = STORES.filter((store) => !REGISTRY[store].keepsNothing);
/**
 * For long walks whose kills come between the steps of a run, where stores do not differ; kills between writes are in
 * test/crash. `CRASH_ALL=1` walks on every store.
 */
export const WALKED = process.env['CRASH_ALL'] === '1' ? LASTING : LASTING.slice(0, 1);

export function tempFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-flow-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return join(folder, 'data');
}

/** Started by the first test that needs it. */
let server: Promise<TestServer> | undefined;
after(async () => (await server)?.stop());

/** A place for the data of a test: `memory`, a folder, or the address of a database. */
export async function dataOf(t: TestContext, store: StoreName): Promise<string> {
  const { keepsNothing, leadership } = REGISTRY[store];
  if (keepsNothing) return store;
  // Only a store that several nodes share is a server of its own.
  if (!leadership) return tempFolder(t);
  server ??= testMariaDb();
  return (await server).database();
}

/** The same promise on one store after the other. */
export function onStores(
  title: string,
  stores: readonly StoreName[],
  show: (t: TestContext, data: string) => Promise<void>,
): void {
  for (const store of stores) test(`${title} (${store})`, async (t) => show(t, await dataOf(t, store)));
}

export const isDatabase = (data: string): boolean => data.startsWith('mariadb:');

interface Placed {
  readonly data?: string;
  readonly config?: string;
}

/** The options for a place that is a database: it is named in the configuration. */
export function placed<T extends Placed>(options: T): Omit<T, keyof Placed> & Placed {
  const { data, config = '', ...rest } = options;
  if (data === undefined || !isDatabase(data)) return options;
  const url = JSON.stringify(data);
  return { ...rest, config: `${config}\nstore: mariadb\nmariadb: {url: ${url}}\n` };
}

/** Says nothing: what a test wants to know it asks for. */
const silent = createLogger({ write: () => undefined, now: () => 0 });

export async function start(t: TestContext, options: OrchestratorOptions): Promise<Orchestrator> {
  const orchestrator = await createOrchestrator({ logger: silent, ...placed(options) });
  t.after(() => within(orchestrator.stop()));
  return orchestrator;
}

/** The same on a journal whose background work is done at once, in this thread. */
export async function startInline(
  t: TestContext,
  options: { data: string; env: Env; backends: readonly Backend[]; config?: string },
): Promise<Orchestrator> {
  const { backends } = options;
  const env = { ...options.env, timers: withoutPauses(options.env.timers) };
  const config = loadConfig({ text: options.config ?? '' });
  const store = new JournalStore(env, {
    folder: options.data,
    checkpointIntervalMs: config.state.checkpointIntervalMs,
    ...config.retention,
    background: (paths) => new InlineBackground(env.disk, paths, new SqliteHistory(paths.history, 'write')),
  });
  const orchestrator = new Orchestrator({ env, store, backends, settings: runtimeSettings(config) });
  t.after(() => within(orchestrator.stop()));
  await orchestrator.start();
  return orchestrator;
}

/** Short pauses, which only gather work, are no pauses. */
const withoutPauses = (timers: Timers): Timers => ({
  soon: (run) => timers.soon(run),
  after: (ms, run) => {
    if (ms > 500) return timers.after(ms, run);
    const immediate = setImmediate(run);
    return () => clearImmediate(immediate);
  },
});

/** Everything that is already waiting to happen happens. */
export async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

export type FileHook = (path: string, file: DiskFile) => DiskFile;

/** The real disk, with every file that is opened given to `hook` first. */
export function hookedDisk(hook: FileHook, real: Disk = realEnv().disk): Disk {
  return new Proxy(real, {
    get(target, name) {
      if (name === 'open') {
        return async (...args: Parameters<Disk['open']>) => hook(args[0], await target.open(...args));
      }
      const member = target[name as keyof Disk];
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

/** Long enough for a process that gets little of a busy machine: what never comes is late at any time. */
const PATIENCE_MS = 60_000;

/** Fails where a promise is never kept, instead of waiting for ever. */
export async function within<T>(promise: Promise<T>, patienceMs = PATIENCE_MS): Promise<T> {
  const { promise: tooLong, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('it waits for ever')), patienceMs);
  return Promise.race([promise, tooLong]).finally(() => clearTimeout(timer));
}

/** Returns the error that a call was refused with. */
export async function refusalOf(call: () => Promise<unknown>): Promise<OrchdError> {
  try {
    await within(call());
  } catch (error) {
    if (error instanceof OrchdError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}
