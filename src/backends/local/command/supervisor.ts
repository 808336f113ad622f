/**
 * Runs one command to its end, and records its output and its end in the token's folder. It runs in a process of its
 * own, so that neither the command nor its output depends on the brain.
 *
 * S1  No process of the command's process group is alive when `exit.json` is written.
 * S2  The first reason to stop the command counts; a command that has ended by itself is not stopped.
 * S3  A command that has failed just before somebody else told its supervisor to stop was told to stop too: an init
 *     system ends all processes together.
 */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { basename } from 'node:path';
import { openPrivate } from '../../../kit/env/private-files.ts';
import { identityOf, signal } from '../../../kit/process/identity.ts';
import type { ExitRecord, ExitWhy, SupervisorSpec, TokenPaths } from './layout.ts';
import { isTransientStart } from './start-errors.ts';
import { openPayload, syncFolder, writeAll, writeJson } from './token-folder.ts';

/** The time between SIGTERM and SIGKILL. */
const GRACE_MS = 2000;
/**
 * How long after the job's timeout the supervisor stops the command itself. The brain orders the kill at the timeout;
 * this is for when no brain is running.
 */
const TIMEOUT_BACKSTOP_MS = 5000;
/** How long processes that the command has left behind may go on writing output. */
const DRAIN_MS = 500;
const STDERR_TAIL_BYTES = 8 * 1024;
/** An `exit.json` that cannot be written, for example because the disk is full, is tried again for an hour. */
const WRITE_RETRY_MS = 1000;
const WRITE_TRIES = 3600;
/** How often the supervisor checks that its folder still exists. */
const FOLDER_POLL_MS = 5000;
/** Node turns a longer delay into 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

type StopReason = 'ordered' | 'timeout' | 'output' | 'disk';

interface StopRequest {
  readonly why: StopReason;
  readonly message: string | undefined;
}

type CommandEnd = Pick<ExitRecord, 'code' | 'signal' | 'message' | 'errno'>;

type SupervisorPhase =
  | { readonly is: 'new' }
  | { readonly is: 'running'; readonly pid: number }
  /** `pid` is undefined where the stop came before the command was started. */
  | { readonly is: 'stopping'; readonly pid: number | undefined; readonly stop: StopRequest }
  /** The command has exited; processes that it has started may still hold its output open. */
  | {
      readonly is: 'ended';
      readonly pid: number;
      readonly ending: CommandEnd;
      /** Why the command was stopped; undefined if it ended by itself. */
      readonly stop: StopRequest | undefined;
    }
  /** `exit.json` is being written. */
  | { readonly is: 'finished' };

export class Supervisor {
  readonly #spec: SupervisorSpec;
  readonly #paths: TokenPaths;
  readonly #output: number;
  #phase: SupervisorPhase = { is: 'new' };
  #outputBytes = 0;
  #stderr: Buffer = Buffer.alloc(0);

  constructor(spec: SupervisorSpec, paths: TokenPaths) {
    this.#spec = spec;
    this.#paths = paths;
    this.#output = openPrivate(paths.stdout, 'a');
  }

  run(): void {
    if (this.#phase.is === 'stopping') return this.#finish({ code: null, signal: null });
    try {
      this.#start();
    } catch (error) {
      // Without a process by now there will be none: an argument is not allowed, or the disk is full.
      if (this.#phase.is === 'new') this.#failStart(error as NodeJS.ErrnoException);
      else this.stop('disk', (error as Error).message);
    }
  }

  /** Sends SIGTERM to the command's process group, and SIGKILL after GRACE_MS. */
  stop(why: StopReason, message?: string): void {
    const phase = this.#phase;
    if (phase.is === 'ended' && why === 'ordered') this.#stopEnded(phase);
    if (phase.is !== 'new' && phase.is !== 'running') return;
    const pid = phase.is === 'running' ? phase.pid : undefined;
    this.#phase = { is: 'stopping', pid, stop: { why, message } };
    if (pid === undefined) return;
    this.#signalGroup('SIGTERM');
    setTimeout(() => this.#signalGroup('SIGKILL'), GRACE_MS);
  }

  /** S3. */
  #stopEnded(phase: SupervisorPhase & { is: 'ended' }): void {
    if (phase.stop || phase.ending.code === 0 || fs.existsSync(this.#paths.kill)) return;
    this.#phase = { ...phase, stop: { why: 'ordered', message: undefined } };
  }

  #start(): void {
    const { argv, env, cwd, payload, timeoutMs } = this.#spec;
    const input = openPayload(this.#paths.folder, payload);
    // Detached: the command gets its own session and process group, which is signalled as one.
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
    setInterval(() => this.#checkFolder(), FOLDER_POLL_MS);
    if (timeoutMs !== undefined) this.#stopAfter(timeoutMs + TIMEOUT_BACKSTOP_MS);
    writeJson(this.#paths.child, identityOf(pid), 'visible');
  }

  #stopAfter(ms: number): void {
    const step = Math.min(ms, LONGEST_TIMER_MS);
    setTimeout(() => {
      if (ms > step) this.#stopAfter(ms - step);
      else this.stop('timeout', `it ran longer than ${this.#spec.timeoutMs} ms`);
    }, step);
  }

  /** Stops the command when its folder was removed: nobody can read its output then, and no brain can find it to kill it. */
  #checkFolder(): void {
    if (!fs.existsSync(this.#paths.owner)) this.stop('ordered');
  }

  #failStart(error: NodeJS.ErrnoException): void {
    const { argv, cwd } = this.#spec;
    const noFolder = cwd !== undefined && !fs.existsSync(cwd);
    // The caller of the job sees this message, so it contains no paths of this machine.
    const message = noFolder
      ? 'there is no folder for it to run in: see cwd in the configuration'
      : `the program "${basename(argv[0] ?? '')}" does not start (${error.code ?? 'no reason given'})${adviceOn(error.code)}`;
    const errno = error.code;
    this.#finish({ code: null, signal: null, message, ...(errno === undefined ? {} : { errno }) }, 'start');
  }

  #write(bytes: Buffer): void {
    // Output after a gap is dropped, so that the file is always a prefix of what the command wrote.
    const stopped = this.#stopRequest()?.why;
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

  /** The command has exited. Processes that it left behind may write for a moment, then they are killed. */
  #ended(pid: number, ending: CommandEnd): void {
    const stop = this.#stopRequest();
    this.#phase = { is: 'ended', pid, ending, stop };
    const waitMs = stop ? GRACE_MS : DRAIN_MS;
    setTimeout(() => {
      this.#signalGroup('SIGKILL');
      setTimeout(() => this.#finish(ending), DRAIN_MS);
    }, waitMs);
  }

  #finish(ending: CommandEnd, why: ExitWhy = this.#why()): void {
    if (this.#phase.is === 'finished') return;
    this.#signalGroup('SIGKILL');
    const message = ending.message ?? this.#stopRequest()?.message;
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
      writeJson(this.#paths.exit, record, 'durable');
      syncFolder(this.#paths.folder);
    } catch {
      const mayRetry = tries < WRITE_TRIES && fs.existsSync(this.#paths.owner);
      if (mayRetry) setTimeout(() => this.#record(record, tries + 1), WRITE_RETRY_MS);
      else process.exit(1);
      return;
    }
    process.exit(0);
  }

  #stopRequest(): StopRequest | undefined {
    return 'stop' in this.#phase ? this.#phase.stop : undefined;
  }

  #why(): ExitWhy {
    const why = this.#stopRequest()?.why ?? 'exit';
    if (why === 'ordered') return fs.existsSync(this.#paths.kill) ? 'killed' : 'terminated';
    return why;
  }

  #signalGroup(name: NodeJS.Signals): void {
    const pid = 'pid' in this.#phase ? this.#phase.pid : undefined;
    if (pid !== undefined) signal(-pid, name);
  }
}

/** Where the machine lacks something, the configuration is not to blame. */
function adviceOn(errno: string | undefined): string {
  if (isTransientStart(errno)) return ': its machine lacks space, memory or processes at the moment';
  return ': see argv in the configuration';
}
