/** What the child process does. */
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { type Brain, buildBrain, type Pace } from './brain.ts';
import { type Folders, foldersOf, makeFolders } from './folders.ts';
import { keepingEnv } from './keeping-env.ts';
import { type Client, openAcks, play, SCRIPTS, type Step } from './script.ts';
import { FIRST_INSTANT, SteadyEnv } from './steady-env.ts';
import { type KillOrder, Tally } from './tally.ts';

export interface Task {
  readonly root: string;
  readonly data: string | undefined;
  readonly kill: KillOrder;
  readonly mode: 'play' | 'recover';
  readonly pace: Pace;
  readonly startAt: number | undefined;
  readonly onNames: (names: readonly string[]) => void;
}

const SEED = 1;
/** Some of the waits of the workload are shorter than a flush, some longer. */
const CALL_MS = 5;
/** Exit code of a brain that stopped because its disk failed. */
export const FAILED = 7;
const LIMIT_MS = 20_000_000;

export async function main(task: Task): Promise<void> {
  const folders = makeFolders(foldersOf(task.root, task.data));
  if (task.pace === 'real') return playReal(folders);
  const startAt = task.startAt ?? FIRST_INSTANT;
  let now = (): number => startAt;
  const tally = new Tally(folders, task.kill, () => now());
  const env = new SteadyEnv({
    folder: folders.data,
    startAt,
    seed: SEED,
    callMs: CALL_MS,
    before: (operation) => tally.before(operation),
  });
  now = () => env.clock.now();
  const build = (): Brain =>
    buildBrain(env, folders, {
      pace: 'steady',
      background: 'inline',
      watchHistory: (history) => tally.watchHistory(history),
    });
  tally.arm();
  await env.run(() => (task.mode === 'recover' ? startOnly(build) : playOn(env, folders, build)), LIMIT_MS);
  env.halt();
  task.onNames(tally.names);
}

async function startOnly(build: () => Brain): Promise<void> {
  await build().orchestrator.start();
}

async function playOn(env: SteadyEnv, folders: Folders, build: () => Brain): Promise<void> {
  await playThrough(
    build,
    {
      acks: openAcks(folders.acks),
      now: () => env.clock.now(),
      sleep: (ms) => env.sleep(ms),
    },
    SCRIPTS.steady,
  );
}

/** In real time, on the plain disk: what strace sees is what production does. */
async function playReal(folders: Folders): Promise<void> {
  const env = keepingEnv(folders);
  const build = (): Brain => buildBrain(env, folders, { pace: 'real', background: 'inline' });
  await playThrough(
    build,
    {
      acks: openAcks(folders.acks),
      now: () => env.clock.now(),
      sleep: (ms) => new Promise((resolve) => env.timers.after(ms, resolve)),
    },
    SCRIPTS.real,
  );
}

async function playThrough(
  build: () => Brain,
  client: Omit<Client, 'restart'>,
  script: readonly Step[],
): Promise<void> {
  let { orchestrator } = build();
  const restart = async (): Promise<Orchestrator> => {
    await orchestrator.stop();
    orchestrator = build().orchestrator;
    await orchestrator.start();
    return orchestrator;
  };
  try {
    await orchestrator.start();
    await play(orchestrator, { ...client, restart }, script);
    await orchestrator.stop();
  } catch (error) {
    await tellFailure(orchestrator, error as Error);
  }
}

/** What a failure looks like to a caller, now and at the next try. */
export interface ToldFailure {
  readonly code: string;
  /** Why the brain has stopped, if it has. */
  readonly stopped: string | undefined;
  /** What another submit gets. */
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
