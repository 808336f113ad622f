/**
 * One command under the care of a keeper, from its start or its adoption to its `exit.json`.
 *
 * S1  No process of the execution is alive when `exit.json` is written: none of the wrapper's process group, and none
 *     with the mark of the execution in its environment.
 * S2  The first reason to stop the command counts; a command that has ended by itself is not stopped.
 * S3  A command that has failed just before somebody else told its keeper to stop was told to stop too: an init system
 *     ends all processes together.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { crashpoint } from '../../../kit/crashpoint.ts';
import { isAlive, type ProcessIdentity, signal } from '../../../kit/process/identity.ts';
import type { Mark } from '../../../kit/process/marked.ts';
import type { CommandSpec } from './keeper-wire.ts';
import type { ExitRecord, ExitWhy, OwnerRecord, TokenPaths } from './layout.ts';
import type { Leftovers } from './leftovers.ts';
import { cutOutput, isMissing, OutputWatch, syncOutput } from './output.ts';
import { type CommandFiles, overwriteDurable, writeDurable } from './token-folder.ts';
import { findProgram, readStatus, SHELL, startErrorOf, startMessage, wrapperWords } from './wrapper.ts';

/** The time between SIGTERM and SIGKILL. */
const GRACE_MS = 2000;
/**
 * How long after the job's timeout the keeper stops the command itself. The brain orders the kill at the timeout; this
 * is for when no brain is running.
 */
const TIMEOUT_BACKSTOP_MS = 5000;
/** How long processes that the command has left behind may go on writing output. */
const DRAIN_MS = 500;
const GROUP_POLL_MS = 10;
/** The pauses between two searches for processes that were killed and have not ended yet. */
const FIRST_SEARCH_PAUSE_MS = 20;
const LONGEST_SEARCH_PAUSE_MS = 1000;
/** An `exit.json` that cannot be written, for example because the disk is full, is tried again after this time. */
const WRITE_RETRY_MS = 1000;

/** `ordered`: by a signal to the keeper; a `kill` file then tells whether a brain was behind it. */
type StopReason = 'ordered' | 'killed' | 'timeout' | 'output';

interface StopRequest {
  readonly why: StopReason;
  readonly message: string | undefined;
}

/** How the command has ended where nobody stopped it. */
type CommandEnd = Pick<ExitRecord, 'code' | 'signal' | 'message' | 'errno'> & {
  readonly why: Extract<ExitWhy, 'exit' | 'start' | 'lost'>;
};

const LOST: CommandEnd = { why: 'lost', code: null, signal: null };

export interface Execution {
  readonly paths: TokenPaths;
  readonly mark: Mark;
  /** Undefined where `owner.json` cannot be read. */
  readonly owner: OwnerRecord | undefined;
}

export class KeptCommand {
  readonly #execution: Execution;
  readonly #paths: TokenPaths;
  readonly #leftovers: Leftovers;
  readonly #output: OutputWatch;
  /** By the monotonic clock of this process. */
  readonly #deadline: number;
  /** The process group of the command, while it may be signalled: it has the pid of the wrapper. */
  #group: number | undefined;
  #stop: StopRequest | undefined;
  #ending: CommandEnd | undefined;
  #isFinished = false;
  /** An adopted wrapper is no child of this process: its end is found by looking. */
  #adopted: { readonly wrapper: ProcessIdentity; readonly ended: () => void } | undefined;

  constructor(execution: Execution, leftovers: Leftovers) {
    this.#execution = execution;
    this.#paths = execution.paths;
    this.#leftovers = leftovers;
    const { timeout_ms, own_timeout, max_output_bytes, started_at = 0 } = execution.owner ?? {};
    const timeoutMs = (timeout_ms ?? Number.POSITIVE_INFINITY) + (own_timeout ? 0 : TIMEOUT_BACKSTOP_MS);
    const leftMs = started_at - Date.now() + timeoutMs;
    this.#deadline = performance.now() + Math.max(0, leftMs);
    this.#output = new OutputWatch(execution.paths, max_output_bytes ?? Number.POSITIVE_INFINITY);
  }

  /**
   * Runs the command; settles when its end is recorded. With a `problem`, which kept its folder from being durable, it is
   * not run, and its end says so.
   */
  async run(spec: CommandSpec, files: CommandFiles, problem?: Error): Promise<void> {
    crashpoint('keeper:before-start');
    await this.#settle(await this.#runWrapper(spec, files, problem));
  }

  /** Takes over what another keeper has begun. `watching` where its wrapper lives; `ended` settles like `run`. */
  adopt(
    wrapper: ProcessIdentity | undefined,
    child: ProcessIdentity | undefined,
  ): { readonly watching: boolean; readonly ended: Promise<void> } {
    if (child && isAlive(child)) this.#group = child.pid;
    if (wrapper === undefined || !isAlive(wrapper)) {
      const { code } = readStatus(this.#paths.status);
      // What was not synced before the machine went down may be missing from the output of a command with a status.
      const isWhole = code !== undefined && wrapper !== undefined;
      return { watching: false, ended: this.#settle(isWhole ? { why: 'exit', code, signal: null } : LOST) };
    }
    this.#group = wrapper.pid;
    const ended = new Promise<void>((resolve) => {
      this.#adopted = { wrapper, ended: resolve };
    }).then(() => {
      this.#adopted = undefined;
      const { code } = readStatus(this.#paths.status);
      return this.#settle(code === undefined ? LOST : { why: 'exit', code, signal: null });
    });
    this.lookForKill();
    return { watching: true, ended };
  }

  /** Sends SIGTERM to the command's process group, and SIGKILL after GRACE_MS. */
  stop(why: StopReason, message?: string): void {
    if (this.#stop || this.#isFinished) return;
    if (this.#ending) {
      const failed = this.#ending.why === 'exit' && this.#ending.code !== 0;
      // S3.
      if (why !== 'ordered' || !failed || fs.existsSync(this.#paths.kill)) return;
    }
    this.#stop = { why, message };
    if (this.#ending) return;
    this.#signalGroup('SIGTERM');
    setTimeout(() => this.#signalGroup('SIGKILL'), GRACE_MS);
  }

  /** Stops the command where a brain has ordered it. */
  lookForKill(): void {
    if (!this.#stop && fs.existsSync(this.#paths.kill)) this.stop('ordered');
  }

  /** Stops a command whose folder was removed: nobody can read its output then, and no brain can find it to kill it. */
  lookForFolder(): void {
    if (isMissing(this.#paths.owner)) this.stop('ordered');
  }

  /** Looks whether a bound is exceeded, or an adopted wrapper has ended. Returns whether the output grows fast. */
  look(now: number): boolean {
    if (this.#ending) return false;
    if (now > this.#deadline)
      this.stop('timeout', `it ran longer than ${this.#execution.owner?.timeout_ms} ms`);
    if (this.#adopted && !isAlive(this.#adopted.wrapper)) this.#adopted.ended();
    const { isTooLong, isFast } = this.#output.look();
    if (isTooLong) this.stop('output', this.#output.message);
    return isFast;
  }

  #runWrapper(
    spec: CommandSpec,
    { input, stdout, stderr }: CommandFiles,
    problem: Error | undefined,
  ): Promise<CommandEnd> {
    const voice = `orchd-${this.#paths.name.slice(0, 12)}-${process.pid}`;
    const failed = ({ code: errno }: NodeJS.ErrnoException): CommandEnd => ({
      why: 'start',
      code: null,
      signal: null,
      message: startMessage(spec, errno),
      ...(errno === undefined ? {} : { errno }),
    });
    let child: ChildProcess;
    try {
      if (problem) throw problem;
      if (this.#stop) throw Object.assign(new Error('it was stopped before'), { code: 'EAGAIN' });
      const program = findProgram(spec, this.#paths.work);
      // Detached: wrapper and command get their own session and process group, which is signalled as one.
      child = spawn(SHELL, wrapperWords(spec, program, this.#paths, voice), {
        cwd: spec.cwd ?? this.#paths.work,
        env: spec.env,
        detached: true,
        stdio: [input, stdout, stderr],
      });
    } catch (error) {
      return Promise.resolve(failed(error as NodeJS.ErrnoException));
    } finally {
      for (const fd of [input, stdout, stderr]) fs.closeSync(fd);
    }
    return new Promise((resolve) => {
      child.on('error', (error) => {
        if (child.pid === undefined) resolve(failed(error));
      });
      if (child.pid === undefined) return;
      this.#group = child.pid;
      child.on('exit', (code, name) => resolve(this.#endOf(spec, voice, code, name)));
      crashpoint('keeper:after-start');
    });
  }

  #endOf(spec: CommandSpec, voice: string, code: number | null, name: string | null): CommandEnd {
    const { code: status } = readStatus(this.#paths.status);
    const errno = startErrorOf(this.#paths, voice, status);
    // A status that is missing proves nothing: the command may have removed it.
    if (errno !== undefined) {
      const message = startMessage(spec, errno);
      return { why: 'start', code: null, signal: null, message, errno };
    }
    if (status === undefined && name !== null) return LOST;
    // The wrapper ends with the code of the command too, in case that the file could not be written.
    return { why: 'exit', code: status ?? code, signal: null };
  }

  async #settle(ending: CommandEnd): Promise<void> {
    this.#ending = ending;
    crashpoint('keeper:after-end');
    await this.#emptyGroup();
    if (ending.why !== 'start') await this.#endMarked();
    const why = this.#why(ending);
    const { code, signal: name, errno } = ending;
    const message = ending.message ?? this.#stop?.message;
    this.#isFinished = true;
    await this.#record({
      code,
      signal: name,
      why,
      ...(message === undefined ? {} : { message }),
      ...(errno === undefined ? {} : { errno }),
      stderr_tail: this.#output.stderrTail(),
      ended_at: Date.now(),
    });
  }

  /** Processes that the command left behind may write for a moment, then they are killed. */
  async #emptyGroup(): Promise<void> {
    const group = this.#group;
    if (group === undefined) return;
    const isEmpty = (): boolean => !signal(-group, 0);
    const untilEmpty = async (ms: number): Promise<void> => {
      for (let waited = 0; waited < ms && !isEmpty(); waited += GROUP_POLL_MS) await sleep(GROUP_POLL_MS);
    };
    if (this.#ending?.why !== 'lost') await untilEmpty(this.#stop ? GRACE_MS : DRAIN_MS);
    if (!isEmpty()) {
      signal(-group, 'SIGKILL');
      await untilEmpty(DRAIN_MS);
    }
    this.#group = undefined;
  }

  /** S1. Without a group, as after a restart, two searches in a row must find nothing. */
  async #endMarked(): Promise<void> {
    const { mark } = this.#execution;
    let missing = this.#ending?.why === 'lost' ? 2 : 1;
    for (let pauseMs = FIRST_SEARCH_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_SEARCH_PAUSE_MS)) {
      const found = await this.#leftovers.find(mark.value);
      if (found.length === 0 && --missing === 0) return;
      if (found.length > 0) {
        missing = 2;
        for (const pid of found) signal(pid, 'SIGKILL');
      }
      await sleep(pauseMs);
    }
  }

  #why({ why }: CommandEnd): ExitWhy {
    // A command that was not run has an outcome, whoever has stopped it. The `kill` file of a kill that came before it
    // began may be missing, on a full disk.
    if (why === 'start')
      return this.#stop?.why === 'killed' || fs.existsSync(this.#paths.kill) ? 'killed' : 'start';
    if (this.#stop?.why === 'ordered') return fs.existsSync(this.#paths.kill) ? 'killed' : 'terminated';
    // A brain that ordered the end may have found no keeper to tell it to.
    if (why === 'lost' && fs.existsSync(this.#paths.kill)) return 'killed';
    return this.#stop?.why ?? why;
  }

  async #record(record: ExitRecord): Promise<void> {
    crashpoint('keeper:before-exit');
    for (;;) {
      try {
        const output = await cutOutput(this.#paths, this.#output, record);
        const syncBefore = (): Promise<void> => syncOutput(this.#paths.stdout);
        await writeDurable(this.#paths.folder, this.#paths.exit, { ...record, ...output }, syncBefore);
        crashpoint('keeper:after-exit');
        return;
      } catch (error) {
        if (isMissing(this.#paths.owner)) return;
        if ((error as NodeJS.ErrnoException).code === 'ENOSPC' && (await this.#recordOnFullDisk(record)))
          return;
        await sleep(WRITE_RETRY_MS);
      }
    }
  }

  /** The end of a command that was stopped needs no more space than `status` has: it frees a slot, and a cancelled job. */
  async #recordOnFullDisk(record: ExitRecord): Promise<boolean> {
    if (record.why !== 'killed') return false;
    const { folder, exit, status } = this.#paths;
    const short = { ...record, stderr_tail: '', output_bytes: fs.statSync(this.#paths.stdout).size };
    return overwriteDurable(folder, exit, status, short).then(
      () => true,
      () => false,
    );
  }

  #signalGroup(name: NodeJS.Signals): void {
    if (this.#group !== undefined) signal(-this.#group, name);
  }
}
