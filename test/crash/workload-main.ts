/** The child process of the crash tests: plays a part of the script, or recovers a folder. */
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { type Brain, buildBrain, type Pace } from './brain.ts';
import { type Folders, foldersOf, makeFolders } from './folders.ts';
import { keepingEnv } from './keeping-env.ts';
import {
  type Client,
  chaptersOf,
  openAcks,
  play,
  type Range,
  readAcks,
  SCRIPTS,
  type Step,
} from './script.ts';
import { FIRST_INSTANT, SteadyEnv } from './steady-env.ts';
import { type KillOrder, Tally } from './tally.ts';
import { watchedConnect } from './watched-connect.ts';

export interface Task {
  readonly root: string;
  readonly data: string | undefined;
  /** The address of the database that holds the data instead of the folder. */
  readonly database: string | undefined;
  readonly kill: KillOrder;
  readonly mode: 'play' | 'recover';
  readonly pace: Pace;
  readonly startAt: number | undefined;
  /** Which part of the script; all of it by default. */
  readonly chapter: number | undefined;
  readonly onNames: (names: readonly string[]) => void;
}

const SEED = 1;
/** Some of the waits of the workload are shorter than a flush, some longer. */
const CALL_MS = 5;
/** Exit code of a brain that stopped because its disk failed. */
export const FAILED = 7;
const LIMIT_MS = 20_000_000;
const PAUSE_MS = 1000;

export async function main(task: Task): Promise<void> {
  const folders = makeFolders(foldersOf(task.root, task.data));
  if (task.pace === 'real') return playReal(folders);
  const earlier = readAcks(folders.acks);
  // The chapter starts a moment after the last acknowledgement of the chapter before.
  const startAt = task.startAt ?? (earlier.at(-1)?.at ?? FIRST_INSTANT) + PAUSE_MS;
  let now = (): number => startAt;
  const tally = new Tally(folders, task.kill, () => now());
  const env = new SteadyEnv({
    folder: folders.data,
    startAt,
    seed: SEED + earlier.length,
    callMs: CALL_MS,
    before: (operation) => tally.before(operation),
  });
  now = () => env.clock.now();
  const { database } = task;
  const build = (): Brain =>
    buildBrain(env, folders, {
      pace: 'steady',
      background: 'inline',
      watchHistory: (history) => tally.watchHistory(history),
      ...(database !== undefined && { connect: watchedConnect(database, env.call) }),
    });
  tally.arm();
  const script = SCRIPTS.steady;
  const range = task.chapter === undefined ? WHOLE(script) : (chaptersOf(script)[task.chapter] as Range);
  const client = { now: () => env.clock.now(), sleep: (ms: number) => env.sleep(ms), earlier };
  const run = (): Promise<unknown> =>
    task.mode === 'recover'
      ? build().orchestrator.start()
      : playThrough(build, { ...client, acks: openAcks(folders.acks) }, script, range);
  await env.run(run, LIMIT_MS);
  env.halt();
  task.onNames(tally.names);
  // A brain that was only opened still has its connections.
  if (task.mode === 'recover') process.exit();
}

const WHOLE = (script: readonly Step[]): Range => ({ from: 0, to: script.length });

/** In real time, on the plain disk: what strace sees is what production does. */
async function playReal(folders: Folders): Promise<void> {
  const env = keepingEnv(folders);
  const build = (): Brain => buildBrain(env, folders, { pace: 'real', background: 'inline' });
  const client = {
    acks: openAcks(folders.acks),
    now: () => env.clock.now(),
    sleep: (ms: number) => new Promise<void>((resolve) => env.timers.after(ms, resolve)),
    earlier: [],
  };
  await playThrough(build, client, SCRIPTS.real, WHOLE(SCRIPTS.real));
}

async function playThrough(
  build: () => Brain,
  client: Omit<Client, 'begin'>,
  script: readonly Step[],
  range: Range,
): Promise<void> {
  let last: Orchestrator | undefined;
  const begin = async (): Promise<Orchestrator> => {
    last = build().orchestrator;
    await last.start();
    return last;
  };
  try {
    await play({ ...client, begin }, script, range);
  } catch (error) {
    await tellFailure(last as Orchestrator, error as Error);
  }
}

/** The error codes that a caller gets from a brain whose disk has failed. */
export interface ToldFailure {
  readonly code: string;
  /** Why the brain has stopped, if it has. */
  readonly stopped: string | undefined;
  /** Code of another submit after the failure, or `taken`. */
  readonly next: string;
}

async function tellFailure(orchestrator: Orchestrator, error: Error): Promise<void> {
  const next = await orchestrator.submit({ type: 'work', payload: {} }).then(
    () => 'taken',
    (later: Error) => codeOf(later),
  );
  const stopped = orchestrator.failure && codeOf(orchestrator.failure);
  const told: ToldFailure = { code: codeOf(error), stopped, next };
  process.stderr.write(`${JSON.stringify(told)}\n`);
  process.exit(FAILED);
}

const codeOf = (error: Error): string => (error as { code?: string }).code ?? error.message;
