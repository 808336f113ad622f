/**
 * Makes the golden data of a format version: `node test/golden/make.ts`. Run once per version, when the version is
 * new; what was committed is never made again, since stores like it are out there.
 *
 * v1 was written by an earlier form of this script. v2 was written by commit 6869aaa, v3 by commit 8c97ab9, each on both
 * stores from the same happenings; v4, in which a failed try has tokens, v5, which is about money, v6, which is about
 * waits and sessions, v7, in which sessions have threads, v8, which is about governance and what was added beside it, v9,
 * which is about consumers, and v10, which is about worker pools, by the commits that added them. The script is kept to show
 * what the data hold and how they came to be. It compiles with later code, but it need not run on it any more.
 */
import type { Backend } from '../../src/core/ports/backend.ts';
import type { Store } from '../../src/core/ports/store.ts';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import type { HistoryIndex } from '../../src/stores/journal/history/history.ts';
import { MemoryHistory } from '../../src/stores/journal/history/memory.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import { MariaDbStore } from '../../src/stores/mariadb/mariadb.ts';
import { testMariaDb } from '../fakes/mariadb.ts';
import { BEHAVIOURS } from './maker/behaviours.ts';
import { firstClaims, secondClaims } from './maker/consumers.ts';
import { dumpDatabase, stillConnect } from './maker/database.ts';
import { ScriptedExecutor } from './maker/executor.ts';
import { firstRules, GOVERNED_BEHAVIOURS, GOVERNED_CONFIG, GOVERNED_SEAT, secondRules } from './maker/governed.ts';
import { firstSpending, MONEY_BEHAVIOURS, SEATS, secondSpending } from './maker/money.ts';
import { ScriptedPools } from './maker/pools.ts';
import { firstLife, type Stage, secondLife } from './maker/script.ts';
import { StillWorld } from './maker/still-world.ts';
import { firstTalks, secondTalks, THREAD_BEHAVIOURS, THREAD_SEATS } from './maker/threads.ts';
import { firstWaits, secondWaits, waitingBackends } from './maker/waits.ts';
import { firstPools, secondPools } from './maker/worker-pools.ts';

const YEAR_MS = 365 * 24 * 3600_000;
const FIRST_CONFIG = 'orchestrator: {queue_capacity: 2, queue_policy: drop-lru}';
const SECOND_CONFIG = 'leases: {gpus: [{index: 0, memory_mb: 24576}]}';

const COMMON = { labels: {}, models: undefined, keepsResults: true } as const;
const SCRIPTED = { name: 'scripted', kind: 'test', slots: 40, types: ['inference'], paid: true };
/** Its executions are at one node and stay there. */
const DESK = { name: 'desk', kind: 'command', slots: 4, types: ['word-count'], paid: false, node: 'node-a' };

/** What the data of a version are made of: the lives of a brain, one after the other on the same store. */
interface Recipe {
  readonly executors: (env: Env) => Backend[];
  readonly lives: readonly { readonly config: string; readonly happen: (stage: Stage) => Promise<void> }[];
  /** Makes the index of ended jobs in the new folder; without it, the folder has none, and a brain makes it again. */
  readonly history?: (path: string) => HistoryIndex;
}

const RECIPES: Readonly<Record<string, Recipe>> = {
  v4: {
    executors: () => [
      new ScriptedExecutor({ ...COMMON, ...SCRIPTED, registry: 'golden' }, BEHAVIOURS),
      new ScriptedExecutor({ ...COMMON, ...DESK, registry: 'desk-1' }, BEHAVIOURS),
    ],
    lives: [
      { config: FIRST_CONFIG, happen: firstLife },
      { config: SECOND_CONFIG, happen: secondLife },
    ],
  },
  v5: {
    executors: () => SEATS.map((info) => new ScriptedExecutor(info, MONEY_BEHAVIOURS)),
    lives: [
      { config: '', happen: firstSpending },
      { config: '', happen: secondSpending },
    ],
    history: (path) => new SqliteHistory(path, 'write'),
  },
  v6: {
    executors: waitingBackends,
    lives: [
      { config: '', happen: firstWaits },
      { config: '', happen: secondWaits },
    ],
    history: (path) => new SqliteHistory(path, 'write'),
  },
  v7: {
    executors: () => THREAD_SEATS.map((info) => new ScriptedExecutor(info, THREAD_BEHAVIOURS)),
    lives: [
      { config: '', happen: firstTalks },
      { config: '', happen: secondTalks },
    ],
    history: (path) => new SqliteHistory(path, 'write'),
  },
  v8: {
    executors: () => [new ScriptedExecutor(GOVERNED_SEAT, GOVERNED_BEHAVIOURS)],
    lives: [
      { config: GOVERNED_CONFIG, happen: firstRules },
      { config: GOVERNED_CONFIG, happen: secondRules },
    ],
    history: (path) => new SqliteHistory(path, 'write'),
  },
  v9: {
    executors: () => [],
    lives: [
      { config: '', happen: firstClaims },
      { config: '', happen: secondClaims },
    ],
    history: (path) => new SqliteHistory(path, 'write'),
  },
  v10: {
    executors: () => [],
    lives: [
      { config: '', happen: firstPools },
      { config: '', happen: secondPools },
    ],
    history: (path) => new SqliteHistory(path, 'write'),
  },
};

async function live(world: StillWorld, store: () => Store, { executors, lives }: Recipe): Promise<void> {
  for (const { config, happen } of lives) {
    const managers = new ScriptedPools((info) => new ScriptedExecutor(info, BEHAVIOURS));
    // What still runs is left running at once: the next life finds it so.
    const settings = { ...runtimeSettings(loadConfig({ text: config })), drainMs: 0 };
    const parts = { env: world.env, store: store(), backends: executors(world.env), managers, settings };
    const brain = new Orchestrator(parts);
    await world.settled(brain.start());
    await world.settle();
    await happen({ world, brain, pools: managers });
    if (brain.failure) throw brain.failure;
    await world.settled(brain.stop());
  }
}

/** Keeps what a backup would hold: no lock, no spare segment, no zeros behind the last frame. */
function trimmed(path: string, bytes: Buffer): Buffer | undefined {
  if (path.endsWith('/lock') || path.endsWith('/spare')) return undefined;
  if (!path.endsWith('.log')) return bytes;
  const last = bytes.findLastIndex((byte) => byte !== 0);
  return bytes.subarray(0, Math.ceil((last + 1) / 512) * 512);
}

async function makeJournal(folder: string, recipe: Recipe): Promise<void> {
  const world = new StillWorld();
  const inMemory = new MemoryHistory();
  mkdirSync(folder, { recursive: true });
  const history = (): HistoryIndex => recipe.history?.(join(folder, 'history.sqlite')) ?? inMemory;
  const options = {
    folder: '/golden',
    checkpointIntervalMs: YEAR_MS,
    historyMs: YEAR_MS,
    auditMs: YEAR_MS,
    auditBytes: 2 ** 30,
    limits: {
      minSegmentBytes: 32_768,
      maxSegmentBytes: 65_536,
      maxFrameBytes: 16_384,
      maxPendingBytes: 2 ** 20,
    },
  };
  await live(
    world,
    () =>
      new JournalStore(world.env, {
        ...options,
        background: (paths) => new InlineBackground(world.disk, paths, history()),
      }),
    recipe,
  );
  for (const [path, bytes] of world.disk.files) {
    const kept = trimmed(path, bytes);
    if (!kept) continue;
    const target = join(folder, path.slice('/golden/'.length));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, kept);
  }
}

async function makeDatabase(file: string, recipe: Recipe): Promise<void> {
  const server = await testMariaDb();
  try {
    const url = await server.database();
    const world = new StillWorld();
    await live(world, () => new MariaDbStore(world.env, { connect: stillConnect(url, world) }), recipe);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, await dumpDatabase(url));
  } finally {
    await server.stop();
  }
}

if (import.meta.main) {
  const [version = 'v10', folder = join(import.meta.dirname, version)] = process.argv.slice(2);
  const recipe = RECIPES[version];
  if (!recipe || existsSync(folder)) {
    console.error(recipe ? `${folder} exists; golden data are made once` : `nothing makes ${version}`);
    process.exitCode = 1;
  } else {
    await makeJournal(join(folder, 'journal'), recipe);
    await makeDatabase(join(folder, 'mariadb.sql'), recipe);
  }
}
