/** Opens copies of the golden data v2 to v4, on either store, as brains do that carry on with them; copies those of v5 to v10. */
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

/** The golden data with every kind of record. Their happenings are the same, but the ids that orchd made differ. */
export type GoldenVersion = 'v2' | 'v3' | 'v4';

/** The golden data that exist for both stores. */
type GoldenCopy = GoldenVersion | 'v5' | 'v6' | 'v7' | 'v8' | 'v9' | 'v10';

export const goldenFolder = (version: GoldenCopy): string => join(import.meta.dirname, version);

export function copyOfJournal(version: GoldenCopy = 'v2'): string {
  const folder = newFolder();
  cpSync(join(goldenFolder(version), 'journal'), folder, { recursive: true });
  return folder;
}

export const dumpOfTables = (version: GoldenCopy = 'v2'): string =>
  readFileSync(join(goldenFolder(version), 'mariadb.sql'), 'utf8');

export async function copyOfTables(version: GoldenCopy = 'v2'): Promise<string> {
  const url = await newDatabase();
  await loadDatabase(url, dumpOfTables(version));
  return url;
}

/** A job that never comes to its end fails its test rather than hanging it. */
const TIMEOUT_MS = 60_000;

/** The same promise on both stores; `place` is a data folder or the address of a database. */
export function onBothStores(
  title: string,
  show: (t: TestContext, place: string) => Promise<void>,
  version: GoldenCopy = 'v2',
): void {
  test(`${title} (journal)`, { timeout: TIMEOUT_MS }, async (t) => show(t, copyOfJournal(version)));
  test(`${title} (mariadb)`, { timeout: TIMEOUT_MS }, async (t) => show(t, await copyOfTables(version)));
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
  /** The version that `place` is a copy of; v2 unless given. */
  readonly version?: GoldenVersion;
}

export interface Opened {
  readonly brain: Orchestrator;
  readonly pools: ScriptedPools;
  readonly ids: GoldenTexts;
}

export async function open(t: TestContext, place: string, options: OpenOptions = {}): Promise<Opened> {
  const { executorOf = silent, clock = { now: NOW }, died, version = 'v2' } = options;
  const ids = IDS[version];
  const env: Env = {
    ...realEnv(),
    clock: { now: () => clock.now, monotonic: () => clock.now - START, isMadeUp: true },
  };
  const database = place.startsWith('mariadb:') ? `{store: mariadb, mariadb: {url: "${place}"}}` : undefined;
  const config = loadConfig(database === undefined ? {} : { text: database });
  const settings = { ...runtimeSettings(config), sweepIntervalMs: 20, drainMs: 20 };
  const backends = [executorOf(SCRIPTED_INFO), executorOf(DESK_INFO)];
  const pools = poolsAsLeft(executorOf, ids.workers);
  if (died !== undefined) pools.hide('north', died);
  const store = configuredStore(config).open({ env, config, folder: place });
  const brain = new Orchestrator({ env, store, backends, managers: pools, settings });
  t.after(() => brain.stop());
  await brain.start();
  // The workers that were starting, draining and stopping are ordered to: by then the pools have been heard.
  await pools.ordered(3);
  return { brain, pools, ids };
}

/** The pools as they were when the golden data were left, with the workers that they showed then. */
function poolsAsLeft(
  executorOf: (info: Backend['info']) => Backend,
  workers: GoldenTexts["workers"],
): ScriptedPools {
  const pools = new ScriptedPools(executorOf);
  pools.add('north', [24, 24], 'eu', { tier: 'gold' });
  pools.add('south', [24], 'us');
  pools.add('west', [24]);
  const common = { device: 0, vramGuessed: undefined, contextLength: 32_768 };
  const chat = { ...common, modelRef: 'file:/models/chat.gguf', vramBytes: 16e9, slots: 2 };
  const embed = { ...common, modelRef: 'file:/models/embed.gguf', vramBytes: 4e9, slots: 1 };
  pools.show({ ...chat, id: workers.running, pool: 'north' });
  pools.show({ ...chat, id: workers.draining, pool: 'south' });
  pools.show({ ...embed, id: workers.stopping, pool: 'west' });
  return pools;
}

/** The ids that orchd made itself, and the texts that an earlier version stored as sentences. */
export interface GoldenTexts {
  /** The job that was submitted without an id. */
  readonly plain: string;
  /** The lease of the agent "trainer". */
  readonly lease: string;
  /** The workers by the state of their records. */
  readonly workers: Readonly<Record<'running' | 'draining' | 'stopping' | 'starting', string>>;
  /** Why the draining and the stopping worker are on their way out. */
  readonly reasons: { readonly draining: string; readonly stopping: string };
}

const TEXTS: Readonly<Record<'v2' | 'v3', GoldenTexts>> = {
  v2: {
    plain: '01a3185c5636eada5e9869e9a5ba6f3e',
    lease: '8428b1c1a1a16f47b381712eaaa0f2b14cb6f1812dc7b92688751cf87431f532',
    workers: {
      running: 'w-16b892fa-87',
      draining: 'w-16b892fa-8j',
      stopping: 'w-16b892fa-8s',
      starting: 'w-16b892fa-97',
    },
    reasons: { draining: 'the pool is drained by root', stopping: 'the pool is reloaded by anna' },
  },
  v3: {
    plain: '01a3185c56360000eada5e9869e9a5ba',
    lease: '8428b1c1a1a16f47b381712eaaa0f2b14cb6f1812dc7b92688751cf87431f532',
    workers: {
      running: 'w-16b892fa-86',
      draining: 'w-16b892fa-8h',
      stopping: 'w-16b892fa-8q',
      starting: 'w-16b892fa-95',
    },
    reasons: { draining: 'its pool was drained by root', stopping: 'its pool was reloaded by anna' },
  },
};

const IDS: Readonly<Record<GoldenVersion, GoldenTexts>> = {
  ...TEXTS,
  v4: { ...TEXTS.v3, plain: '01a3185c56360000a322e0eef6c87609', lease: '4cb6f1812dc7b92688751cf87431f5321b55c6edefad85fd15eeebfe6f20de06' },
};

export const WORKERS = IDS.v2.workers;

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
