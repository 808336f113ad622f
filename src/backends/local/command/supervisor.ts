/**
 * Runs one command to its end and writes down what came of it. It lives in a process of its own, so that
 * neither the command nor its answer depends on the brain.
 *
 * S1  Nothing of the command's process group outlives `exit.json`.
 * S2  The first reason to stop it counts; a command that has ended by itself is not stopped.
 */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { basename } from 'node:path';
import { identityOf, signal } from '../../../kit/process/identity.ts';
import type { ExitRecord, ExitWhy, Spec, TokenPaths } from './layout.ts';
import { inputOf, syncFolder, writeAll, writeWhole } from './place.ts';

/** Between asking a command to stop and making it. */
const GRACE_MS = 2000;
/** The brain orders kills at the timeout itself; this is for when there is none. */
const BACKSTOP_MS = 5000;
/** How long children that a command leaves behind may go on writing. */
const DRAIN_MS = 500;
const STDERR_TAIL_BYTES = 8 * 1024;
/** A full disk: an end that cannot be written is tried again for an hour. */
const WRITE_AGAIN_MS = 1000;
const WRITE_TRIES = 3600;
/** Between two looks at whether its folder is still there. */
const FOLDER_POLL_MS = 5000;
/** Node turns a longer delay into 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

type StopWhy = 'ordered' | 'timeout' | 'output' | 'disk';

interface Stop {
  readonly why: StopWhy;
  readonly message: string | undefined;
}

type Ending = Pick<ExitRecord, 'code' | 'signal' | 'message' | 'errno'>;

type Phase =
  | { readonly is: 'new' }
  | { readonly is: 'running'; readonly pid: number }
  /** Told to stop; without a pid that was before its command was started. */
  | { readonly is: 'stopping'; readonly pid: number | undefined; readonly stop: Stop }
  /** The command itself is gone; its output may still be held open by what it has started. */
  | {
      readonly is: 'ended';
      readonly pid: number;
      readonly ending: Ending;
      /** Where it was stopped. */
      readonly stop: Stop | undefined;
    }
  /** Its end is being written down. */
  | { readonly is: 'finished' };

export class Supervisor {
  readonly #spec: Spec;
  readonly #paths: TokenPaths;
  readonly #output: number;
  #phase: Phase = { is: 'new' };
  #outputBytes = 0;
  #stderr: Buffer = Buffer.alloc(0);

  constructor(spec: Spec, paths: TokenPaths) {
    this.#spec = spec;
    this.#paths = paths;
    this.#output = fs.openSync(paths.stdout, 'a');
  }

  run(): void {
    if (this.#phase.is === 'stopping') return this.#finish({ code: null, signal: null });
    try {
      this.#start();
    } catch (error) {
      // What has no process by now gets none: a part of the arguments is not allowed, or there is no space.
      if (this.#phase.is === 'new') this.#failStart(error as NodeJS.ErrnoException);
      else this.stop('disk', (error as Error).message);
    }
  }

  /** SIGTERM to everything it started, SIGKILL to what is left after the grace. */
  stop(why: StopWhy, message?: string): void {
    const phase = this.#phase;
    if (phase.is !== 'new' && phase.is !== 'running') return;
    const pid = phase.is === 'running' ? phase.pid : undefined;
    this.#phase = { is: 'stopping', pid, stop: { why, message } };
    if (pid === undefined) return;
    this.#signalGroup('SIGTERM');
    setTimeout(() => this.#signalGroup('SIGKILL'), GRACE_MS);
  }

  #start(): void {
    const { argv, env, cwd, payload, timeoutMs } = this.#spec;
    const input = inputOf(this.#paths.folder, payload);
    // Detached: a session and a process group of its own, to be stopped as one.
    const child = spawn(argv[0] as string, argv.slice(1), {
      cwd: cwd ?? this.#paths.work,
      env,
      detached: true,
      shell: false,
      stdio: [input, 'pipe', 'pipe'],
    });
    const { pid } = child;
    if (pid !== undefined) this.#phase = { is: 'running', pid };
    fs.closeSync(input);
    child.on('error', (error) => {
      if (pid === undefined) this.#failStart(error);
    });
    child.stdout?.on('data', (bytes: Buffer) => this.#write(bytes));
    child.stderr?.on('data', (bytes: Buffer) => this.#keepStderr(bytes));
    if (pid === undefined) return;
    child.on('exit', (code, name) => this.#ended(pid, { code, signal: name }));
    child.on('close', () => this.#phase.is === 'ended' && this.#finish(this.#phase.ending));
    setInterval(() => this.#lookForFolder(), FOLDER_POLL_MS);
    if (timeoutMs !== undefined) this.#stopAfter(timeoutMs + BACKSTOP_MS);
    writeWhole(this.#paths.child, identityOf(pid), 'visible');
  }

  #stopAfter(ms: number): void {
    const step = Math.min(ms, LONGEST_TIMER_MS);
    setTimeout(() => {
      if (ms > step) this.#stopAfter(ms - step);
      else this.stop('timeout', `it ran longer than ${this.#spec.timeoutMs} ms`);
    }, step);
  }

  /** Whoever removes the folder wants no answer, and could not end the command any other way. */
  #lookForFolder(): void {
    if (!fs.existsSync(this.#paths.owner)) this.stop('ordered');
  }

  #failStart(error: NodeJS.ErrnoException): void {
    const { argv, cwd } = this.#spec;
    const noFolder = cwd !== undefined && !fs.existsSync(cwd);
    // Callers see this: nothing of where things lie on this machine.
    const message = noFolder
      ? 'there is no folder for it to run in: see cwd in the configuration'
      : `the program "${basename(argv[0] ?? '')}" does not start (${error.code ?? 'no reason given'}): see argv in the configuration`;
    const errno = error.code;
    this.#finish({ code: null, signal: null, message, ...(errno === undefined ? {} : { errno }) }, 'start');
  }

  #write(bytes: Buffer): void {
    // Nothing after a gap: what is kept is the beginning of what was said.
    const stopped = this.#stopped()?.why;
    if (stopped === 'output' || stopped === 'disk' || this.#phase.is === 'finished') return;
    const room = this.#spec.maxOutputBytes - this.#outputBytes;
    try {
      writeAll(this.#output, bytes.subarray(0, room));
    } catch (error) {
      return this.stop('disk', (error as Error).message);
    }
    this.#outputBytes += Math.min(bytes.length, room);
    if (bytes.length > room) this.stop('output', `it wrote more than ${this.#spec.maxOutputBytes} bytes`);
  }

  #keepStderr(bytes: Buffer): void {
    const all = Buffer.concat([this.#stderr, bytes]);
    this.#stderr = all.length > STDERR_TAIL_BYTES ? Buffer.from(all.subarray(-STDERR_TAIL_BYTES)) : all;
  }

  /** The command is gone; what it left behind holds its output open for a moment and no longer. */
  #ended(pid: number, ending: Ending): void {
    const stop = this.#stopped();
    this.#phase = { is: 'ended', pid, ending, stop };
    const waitMs = stop ? GRACE_MS : DRAIN_MS;
    setTimeout(() => {
      this.#signalGroup('SIGKILL');
      setTimeout(() => this.#finish(ending), DRAIN_MS);
    }, waitMs);
  }

  #finish(ending: Ending, why: ExitWhy = this.#why()): void {
    if (this.#phase.is === 'finished') return;
    this.#signalGroup('SIGKILL');
    const message = ending.message ?? this.#stopped()?.message;
    this.#phase = { is: 'finished' };
    const record: ExitRecord = {
      ...ending,
      why,
      ...(message === undefined ? {} : { message }),
      stderr_tail: this.#stderr.toString(),
      ended_at: Date.now(),
    };
    this.#record(record, 1);
  }

  #record(record: ExitRecord, tries: number): void {
    try {
      fs.fsyncSync(this.#output);
      writeWhole(this.#paths.exit, record, 'durable');
      syncFolder(this.#paths.folder);
    } catch {
      const wanted = tries < WRITE_TRIES && fs.existsSync(this.#paths.owner);
      if (wanted) setTimeout(() => this.#record(record, tries + 1), WRITE_AGAIN_MS);
      else process.exit(1);
      return;
    }
    process.exit(0);
  }

  #stopped(): Stop | undefined {
    return 'stop' in this.#phase ? this.#phase.stop : undefined;
  }

  #why(): ExitWhy {
    const why = this.#stopped()?.why ?? 'exit';
    if (why === 'ordered') return fs.existsSync(this.#paths.kill) ? 'killed' : 'terminated';
    return why;
  }

  #signalGroup(name: NodeJS.Signals): void {
    const pid = 'pid' in this.#phase ? this.#phase.pid : undefined;
    if (pid !== undefined) signal(-pid, name);
  }
}
