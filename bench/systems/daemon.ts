/** Starts a server process, waits until it answers, and kills it at the latest when the bench exits. */
import { type ChildProcess, spawn } from 'node:child_process';
import { sleep } from '../kit/numbers.ts';

const START_TRIES = 600;

export interface Daemon {
  readonly pid: number;
  stop(): Promise<void>;
}

export interface DaemonOptions {
  readonly program: string;
  readonly args: readonly string[];
  readonly answers: () => Promise<boolean>;
  /** The user that the server runs as, where it is not the current one. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** The signal that makes the server stop without waiting for its clients. */
  readonly stopSignal?: NodeJS.Signals;
}

export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { program, args, answers, user, stopSignal = 'SIGTERM' } = options;
  const child = spawn(program, args, { stdio: 'ignore', ...user });
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  child.once('error', () => undefined);
  for (let tries = 0; !(await answers()); tries++) {
    if (tries === START_TRIES || child.pid === undefined || child.exitCode !== null) {
      kill();
      throw new Error(`${program} did not start`);
    }
    await sleep(50);
  }
  return { pid: child.pid ?? 0, stop: () => stop(child, kill, stopSignal) };
}

async function stop(child: ChildProcess, kill: () => void, signal: NodeJS.Signals): Promise<void> {
  process.off('exit', kill);
  if (child.exitCode !== null) return;
  const gone = new Promise((resolve) => {
    child.once('exit', resolve);
  });
  child.kill(signal);
  await gone;
}
