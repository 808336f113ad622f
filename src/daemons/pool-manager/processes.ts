/** Starts the processes of workers so that they outlive us, and keeps their logs short. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { plainEnvironment } from '../../kit/process/environment.ts';
import { identityOf, type ProcessIdentity, signal } from '../../kit/process/identity.ts';
import { type Mark, markVariable } from '../../kit/process/marked.ts';

export interface SpawnSpec {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly mark: Mark;
  readonly log: string;
  readonly cwd: string;
}

export interface Ending {
  readonly code: number | null;
  readonly signal: string | null;
}

export type Spawned =
  | { readonly is: 'started'; readonly process: ProcessIdentity }
  | { readonly is: 'failed'; readonly why: string };

/** Drivers and their libraries are found by these, and workers of our own are told things. */
const PASSED_ON =
  /^(LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|GGML_\w+|LLAMA_\w+|HF_HOME|ORCHD_(UPSTREAM_KEY|LOG_LEVEL|WORKER_LEDGER))$/;

/** Nothing of our own environment but what programs need to be found and to run. */
export function workerEnvironment(passed: readonly string[]): Record<string, string> {
  const env = plainEnvironment();
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && (PASSED_ON.test(name) || passed.includes(name))) env[name] = value;
  }
  return env;
}

/** In a session of its own, so that neither our end nor a Ctrl-C of ours reaches it. */
export function spawnWorker(spec: SpawnSpec, onExit: (ending: Ending) => void): Promise<Spawned> {
  const [program = '', ...args] = spec.argv;
  return new Promise((resolve) => {
    let log: number;
    try {
      log = fs.openSync(spec.log, 'a', 0o600);
    } catch (error) {
      return resolve({ is: 'failed', why: `no log, ${(error as NodeJS.ErrnoException).code}` });
    }
    const child = spawn(program, args, {
      cwd: spec.cwd,
      env: { ...spec.env, ...markVariable(spec.mark) },
      detached: true,
      shell: false,
      stdio: ['ignore', log, log],
    });
    fs.closeSync(log);
    child.unref();
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (child.pid === undefined) resolve({ is: 'failed', why: error.code ?? 'no reason given' });
    });
    child.on('exit', (code, name) => {
      // What it has started goes with it: while any of them lives the number of the group is not given away.
      if (child.pid !== undefined) signal(-child.pid, 'SIGKILL');
      onExit({ code, signal: name });
    });
    if (child.pid !== undefined) resolve({ is: 'started', process: identityOf(child.pid) });
  });
}

const MAX_LOG_BYTES = 4 * 2 ** 20;
const KEPT_LOG_BYTES = 64 * 1024;

/** The end of what a worker has said. */
export function lastBytes(path: string, bytes: number): Buffer {
  try {
    const fd = fs.openSync(path, 'r');
    try {
      const { size } = fs.fstatSync(fd);
      const length = Math.min(size, bytes);
      const buffer = Buffer.alloc(length);
      return buffer.subarray(0, fs.readSync(fd, buffer, 0, length, size - length));
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return Buffer.alloc(0);
  }
}

/** Cuts a log that has grown too long to its end. The worker appends, so what it says next comes after that. */
export function trimLog(path: string): void {
  try {
    if (fs.statSync(path).size <= MAX_LOG_BYTES) return;
    const end = lastBytes(path, KEPT_LOG_BYTES);
    fs.truncateSync(path, 0);
    fs.appendFileSync(path, end);
  } catch {
    // Gone, or full: there will be another time.
  }
}
