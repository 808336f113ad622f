/** Starts worker processes so that they outlive the manager, and keeps their logs short. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { openPrivate } from '../../kit/env/private-files.ts';
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

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: string | null;
}

export type SpawnResult =
  | { readonly is: 'started'; readonly process: ProcessIdentity }
  | { readonly is: 'failed'; readonly why: string };

/** Variables passed to workers: those by which drivers and libraries are found, and those of our own workers. */
const PASSED_VARIABLES =
  /^(LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|GGML_\w+|LLAMA_\w+|HF_HOME|ORCHD_(UPSTREAM_KEY|LOG_LEVEL|WORKER_LEDGER))$/;

/** The environment of a worker: the plain one, PASSED_VARIABLES, and the configured names in `passed`. */
export function workerEnvironment(passed: readonly string[]): Record<string, string> {
  const env = plainEnvironment();
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && (PASSED_VARIABLES.test(name) || passed.includes(name))) env[name] = value;
  }
  return env;
}

/** Starts the process in a session of its own, so that neither our end nor a Ctrl-C reaches it. */
export function spawnWorker(spec: SpawnSpec, onExit: (exit: ProcessExit) => void): Promise<SpawnResult> {
  const [program = '', ...args] = spec.argv;
  return new Promise((resolve) => {
    let log: number;
    try {
      log = openPrivate(spec.log, 'a');
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
      // Kills the rest of its process group. The group's id is not reused while a member of the group is alive.
      if (child.pid !== undefined) signal(-child.pid, 'SIGKILL');
      onExit({ code, signal: name });
    });
    if (child.pid !== undefined) resolve({ is: 'started', process: identityOf(child.pid) });
  });
}

const MAX_LOG_BYTES = 4 * 2 ** 20;
const KEPT_LOG_BYTES = 64 * 1024;

/** The last bytes of a file; empty where it cannot be read. */
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

/** Cuts a log that is too long down to its last bytes. The worker opened it to append, so its next line follows them. */
export function trimLog(path: string): void {
  try {
    if (fs.statSync(path).size <= MAX_LOG_BYTES) return;
    const end = lastBytes(path, KEPT_LOG_BYTES);
    fs.truncateSync(path, 0);
    const fd = openPrivate(path, 'a');
    try {
      fs.writeSync(fd, end);
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    // The log is gone, or the disk is full: the next call tries again.
  }
}
