/** Opens copies of the golden data v2, on either store, as brains do that carry on with them. */
import type { Backend } from '../../src/core/ports/backend.ts';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { configuredStore } from '../../src/stores/registry.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { loadDatabase } from './maker/database.ts';
import { ScriptedPools } from './maker/pools.ts';
import { START } from './maker/still-world.ts';

export { START };

const V2 = join(import.meta.dirname, 'v2');
/** Less than a second after the last change: nothing has expired since. */
export const NOW = START + 26_000;
/** Jobs that were submitted with a `not_before` wait until then. */
export const LATER = START + 3_600_000;

const root = mkdtempSync(join(tmpdir(), 'orchd-golden-v2-'));
let copies = 0;
/** Started by the first test that needs it. */
let server: Promise<TestServer> | undefined;
after(async () => {
  rmSync(root, { recursive: true, force: true });
  await (await server)?.stop();
});

export const newFolder = (): string => join(root, `${++copies}`);

export async function newDatabase(): Promise<string> {
  server ??= testMariaDb();
  return (await server).database();
}

export function copyOfJournal(): string {
  const folder = newFolder();
  cpSync(join(V2, 'journal'), folder, { recursive: true });
  return folder;
}

export const dumpOfTables = (): string => readFileSync(join(V2, 'mariadb.sql'), 'utf8');

export async function copyOfTables(): Promise<string> {
  const url = await newDatabase();
  await loadDatabase(url, dumpOfTables());
  return url;
}

/** A job that never comes to its end fails its test rather than hanging it. */
const TIMEOUT_MS = 60_000;

/** The same promise on both stores; `place` is a data folder or the address of a database. */
export function onBothStores(title: string, show: (t: TestContext, place: string) => Promise<void>): void {
  test(`${title} (journal)`, { timeout: TIMEOUT_MS }, async (t) => show(t, copyOfJournal()));
  test(`${title} (mariadb)`, { timeout: TIMEOUT_MS }, async (t) => show(t, await copyOfTables()));
}

/** A clock that stands still until a test sets it. */
export interface TestClock {
  now: number;
}

export interface OpenOptions {
  /** Makes the two executors of v2 and the workers of its pools; they say nothing unless given. */
  readonly executorOf?: (info: Backend['info']) => Backend;
  readonly clock?: TestClock;
  /** A worker of the pool `north` that has died since. */
  readonly died?: string;
}

export interface Opened {
  readonly brain: Orchestrator;
  readonly pools: ScriptedPools;
}

export async function open(t: TestContext, place: string, options: OpenOptions = {}): Promise<Opened> {
  const { executorOf = silent, clock = { now: NOW }, died } = options;
  const env: Env = {
    ...realEnv(),
    clock: { now: () => clock.now, monotonic: () => clock.now - START, isMadeUp: true },
  };
  const database = place.startsWith('mariadb:') ? `{store: mariadb, mariadb: {url: "${place}"}}` : undefined;
  const config = loadConfig(database === undefined ? {} : { text: database });
  const settings = { ...runtimeSettings(config), sweepIntervalMs: 20 };
  const backends = [executorOf(SCRIPTED_INFO), executorOf(DESK_INFO)];
  const pools = poolsAsLeft(executorOf);
  if (died !== undefined) pools.hide('north', died);
  const store = configuredStore(config).open({ env, config, folder: place });
  const brain = new Orchestrator({ env, store, backends, managers: pools, settings });
  t.after(() => brain.stop());
  await brain.start();
  // The workers that were starting, draining and stopping are ordered to: by then the pools have been heard.
  await pools.ordered(3);
  return { brain, pools };
}

/** The pools as they were when v2 was left, with the workers that they showed then. */
function poolsAsLeft(executorOf: (info: Backend['info']) => Backend): ScriptedPools {
  const pools = new ScriptedPools(executorOf);
  pools.add('north', [24, 24], 'eu', { tier: 'gold' });
  pools.add('south', [24], 'us');
  pools.add('west', [24]);
  const common = { device: 0, vramGuessed: undefined, contextLength: 32_768 };
  const chat = { ...common, modelRef: 'file:/models/chat.gguf', vramBytes: 16e9, slots: 2 };
  const embed = { ...common, modelRef: 'file:/models/embed.gguf', vramBytes: 4e9, slots: 1 };
  pools.show({ ...chat, id: WORKERS.running, pool: 'north' });
  pools.show({ ...chat, id: WORKERS.draining, pool: 'south' });
  pools.show({ ...embed, id: WORKERS.stopping, pool: 'west' });
  return pools;
}

/** The workers of v2 by the state of their records. */
export const WORKERS = {
  running: 'w-16b892fa-87',
  draining: 'w-16b892fa-8j',
  stopping: 'w-16b892fa-8s',
  starting: 'w-16b892fa-97',
} as const;

const COMMON = { labels: {}, models: undefined, keepsResults: true } as const;

/** The executors of v2 as they described themselves. */
const SCRIPTED_INFO: Backend['info'] = {
  ...COMMON,
  name: 'scripted',
  kind: 'test',
  slots: 40,
  types: ['inference'],
  paid: true,
  registry: 'golden',
};
const DESK_INFO: Backend['info'] = {
  ...COMMON,
  name: 'desk',
  kind: 'command',
  slots: 4,
  types: ['word-count'],
  paid: false,
  registry: 'desk-1',
  node: 'node-a',
};

const never = (): Promise<never> => new Promise(() => undefined);

/** An executor that gives no answer: what was open stays as it was. */
const silent = (info: Backend['info']): Backend => ({
  info,
  offer: never,
  inspect: never,
  follow: never,
  kill: never,
  ack: never,
});
