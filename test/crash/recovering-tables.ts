/** Opens a database after a crash, lets everything come to its end, and checks what must hold. */
import { realEnv } from '../../src/kit/env/real.ts';
import { openInto } from '../../src/runtime/open-store.ts';
import { MariaDbStore } from '../../src/stores/mariadb/mariadb.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { askAgain } from './ask-again.ts';
import { backoffOf, buildBrain, historyOf } from './brain.ts';
import type { Folders } from './folders.ts';
import { checkAcks, checkEnds, checkLedger, checkResults } from './invariants.ts';
import { readLedger } from './ledger.ts';
import { finish, NO_EVENTS, type RecoveryOptions, STEADY } from './recovering.ts';
import { replay } from './replay.ts';
import { readAcks } from './script.ts';
import { emptyState, stateHash } from './state-hash.ts';
import { SteadyEnv } from './steady-env.ts';
import { changesOf, checkRows, checkTrail, readTables, tableResults } from './tables.ts';
import { watchedConnect } from './watched-connect.ts';

const SEED = 2;
const LIMIT_MS = 10_000_000;

/** A case whose data are in a database; the folders have the accounts of the others. */
export interface TableCase {
  readonly folders: Folders;
  readonly url: string;
}

/** `startAt`: a moment after the crash, so that waits go on where they were. */
export async function recoverTables(
  { folders, url }: TableCase,
  startAt: number,
  options: RecoveryOptions = STEADY,
): Promise<string[]> {
  // Before another brain goes on: on tables that a kill has torn it may wait for ever.
  const torn = [...(await checkRepeatable(url, startAt)), ...checkTrail(await readTables(url))];
  if (torn.length > 0) return torn;
  const problems: string[] = [];
  const env = new SteadyEnv({ folder: folders.data, startAt, seed: SEED });
  try {
    await env.run(async () => {
      const { orchestrator } = buildBrain(env, folders, {
        pace: 'steady',
        background: 'inline',
        ledger: { finishHeld: true },
        connect: watchedConnect(url, env.call),
      });
      await orchestrator.start();
      problems.push(...(await askAgain(orchestrator, folders, options.script, env.clock.now())));
      await finish(orchestrator, env);
      await orchestrator.stop();
    }, LIMIT_MS);
  } finally {
    env.halt();
  }
  return [...problems, ...(await checkTables({ folders, url }, options))];
}

/** Opening a database and closing it changes nothing of what is recovered from it. */
async function checkRepeatable(url: string, now: number): Promise<string[]> {
  const first = await recoveredHash(url, now);
  return (await recoveredHash(url, now)) === first
    ? []
    : ['recovering twice gives another state than recovering once'];
}

async function recoveredHash(url: string, now: number): Promise<string> {
  const state = emptyState();
  const store = new MariaDbStore(realEnv(), { connect: connector(url) });
  await openInto(state, store, NO_EVENTS, now);
  await store.close();
  return stateHash(state);
}

export async function checkTables(
  { folders, url }: TableCase,
  { pace }: RecoveryOptions = STEADY,
): Promise<string[]> {
  const tables = await readTables(url);
  const historyMs = historyOf('steady');
  const replayed = replay(changesOf(tables), historyMs);
  const ledger = readLedger(folders.ledger);
  const results = tableResults(tables);
  return [
    ...checkTrail(tables),
    ...replayed.problems,
    ...checkEnds(replayed),
    ...checkAcks(replayed, readAcks(folders.acks), results),
    ...checkLedger(replayed, ledger, backoffOf(pace)),
    ...checkResults(replayed, ledger, results),
    ...checkRows(tables, replayed, historyMs),
  ];
}
