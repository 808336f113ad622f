/** Opens a folder after a crash, lets everything come to its end, and checks what must hold. */

import fs from 'node:fs';
import { join } from 'node:path';
import type { StoreEvents } from '../../src/core/ports/store.ts';
import type { JobEntry } from '../../src/core/state/job-entry.ts';
import { RealDisk } from '../../src/kit/env/real-disk.ts';
import { stableHash } from '../../src/kit/hash.ts';
import { isTerminal } from '../../src/model/states.ts';
import { openInto } from '../../src/runtime/open-store.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { copyFolder } from '../fakes/copy-folder.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { doctorProblems } from '../fakes/healthy.ts';
import { askAgain } from './ask-again.ts';
import { backoffOf, buildBrain, buildStore, historyOf, type Pace } from './brain.ts';
import { type Folders, keepSegment } from './folders.ts';
import { readFullLog } from './full-log.ts';
import { checkAcks, checkEnds, checkLedger, checkResults } from './invariants.ts';
import { readLedger } from './ledger.ts';
import { type Replayed, replay } from './replay.ts';
import { readAcks, SCRIPTS, type Step } from './script.ts';
import { emptyState, recoveredHash, recoveredState } from './state-hash.ts';
import { SteadyEnv } from './steady-env.ts';
import { checkFiles, checkStorage, resultReader } from './storage.ts';
import type { Operation } from './watched-disk.ts';

export interface Recovery {
  /** The operations of start(), by name. */
  readonly shape: readonly string[];
  /** Hash of the recovered state, before anything new ran. */
  readonly hash: string;
  /** State, attempt and result of every job at the end. */
  readonly ends: string;
  readonly problems: readonly string[];
}

const SEED = 2;
const LIMIT_MS = 10_000_000;
const LOOK_MS = 50;

export interface RecoveryOptions {
  /** Pace of the run that was killed. */
  readonly pace: Pace;
  /** Script that the client was playing; empty where the load is random. */
  readonly script: readonly Step[];
}

export const STEADY: RecoveryOptions = { pace: 'steady', script: SCRIPTS.steady };

/** `startAt`: a moment after the crash, so that waits go on where they were. */
export async function recoverFully(
  folders: Folders,
  startAt: number,
  { pace, script }: RecoveryOptions = STEADY,
): Promise<Recovery> {
  const problems = await doctorProblems(new RealDisk(), folders.data);
  const hash = await recoveredHash(folders.data, startAt);
  problems.push(...(await checkRepeatable(folders, startAt, hash)));
  const shape: string[] = [];
  let starting = true;
  const env = steady(folders, startAt, (operation) => {
    if (starting) shape.push(operation.name);
  });
  try {
    await env.run(async () => {
      const { orchestrator, warnings } = buildBrain(env, folders, {
        pace: 'steady',
        background: 'inline',
        ledger: { finishHeld: true },
      });
      await orchestrator.start();
      starting = false;
      problems.push(...(await askAgain(orchestrator, folders, script, env.clock.now())));
      await finish(orchestrator, env);
      await orchestrator.checkpoint();
      await orchestrator.stop();
      problems.push(...warnings);
    }, LIMIT_MS);
  } finally {
    env.halt();
  }
  const { replayed, problems: broken } = await checkCase(folders, pace);
  return { shape, hash, ends: endsOf(replayed), problems: [...problems, ...broken] };
}

function steady(folders: Folders, startAt: number, see: (operation: Operation) => void): SteadyEnv {
  return new SteadyEnv({
    folder: folders.data,
    startAt,
    seed: SEED,
    before: (operation) => {
      see(operation);
      if (operation.kind === 'remove') keepSegment(folders, operation.path);
      return undefined;
    },
  });
}

export const NO_EVENTS: StoreEvents = {
  durable: () => undefined,
  indexed: () => undefined,
  space: () => undefined,
  failed: (error) => {
    throw error;
  },
  ask: () => undefined,
};

/** Opening a folder and closing it changes nothing of what is recovered from it. */
async function checkRepeatable(folders: Folders, startAt: number, hash: string): Promise<string[]> {
  const data = join(folders.root, 'again');
  const archive = join(folders.root, 'again-archive');
  fs.mkdirSync(archive);
  if (fs.existsSync(folders.data)) copyFolder(folders.data, data);
  const env = steady({ ...folders, data, archive }, startAt, () => undefined);
  try {
    await env.run(async () => {
      const options = { pace: 'steady', background: 'inline' } as const;
      const store = buildStore(env, data, options, () => undefined);
      await openInto(emptyState(), store, NO_EVENTS, startAt);
      await store.close();
    }, LIMIT_MS);
    const again = await recoveredHash(data, startAt);
    return again === hash ? [] : ['recovering twice gives another state than recovering once'];
  } finally {
    env.halt();
    fs.rmSync(data, { recursive: true });
    fs.rmSync(archive, { recursive: true });
  }
}

const isLive = ({ job, open }: JobEntry): boolean => !isTerminal(job.state) || open !== undefined;

/** Waits until nothing is left to do; what its caller put off for ever is cancelled. */
export async function finish(orchestrator: Orchestrator, env: SteadyEnv): Promise<void> {
  const { jobs } = engineOf(orchestrator).state;
  for (const { uid, ask } of [...jobs.values()]) {
    if ((ask.spec.not_before ?? 0) > env.clock.now()) await orchestrator.cancel(uid);
  }
  while ([...jobs.values()].some(isLive)) await env.sleep(LOOK_MS);
}

export async function checkCase(
  folders: Folders,
  pace: Pace = 'steady',
): Promise<{ replayed: Replayed; problems: string[] }> {
  const historyMs = historyOf('steady');
  const replayed = replay(await readFullLog(folders), historyMs);
  const ledger = readLedger(folders.ledger);
  const results = resultReader(folders.data);
  const state = await recoveredState(folders.data, replayed.lastAt);
  const problems = [
    ...replayed.problems,
    ...checkEnds(replayed),
    ...checkAcks(replayed, readAcks(folders.acks), results),
    ...checkLedger(replayed, ledger, backoffOf(pace)),
    ...checkResults(replayed, ledger, results),
    ...checkStorage(folders.data, state, replayed, historyMs),
    ...checkFiles(folders.data),
    ...(await doctorProblems(new RealDisk(), folders.data)),
  ];
  return { replayed, problems };
}

/** State, attempt and result of every job as one text, without anything that depends on time. */
function endsOf(replayed: Replayed): string {
  return [...replayed.lives.values()]
    .flat()
    .map(({ uid, job }) => `${uid} ${job.state} ${job.attempt} ${stableHash(job.result ?? '')}`)
    .sort()
    .join('\n');
}
