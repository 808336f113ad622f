/**
 * Runs a command for each job of a spool. What it needs is in a folder of the attempt, `run-<attempt>` in the folder of the
 * job, which is laid out as that of a command backend (backends/local/command/layout.ts): the exit code is written by a
 * wrapper and the output by the command itself, so that neither depends on the agent. A watchdog that finds the agent dead
 * lets the command go on to its end, and takes what it has written for the end of the job.
 */
import { basename, dirname, join, relative } from 'node:path';
import { readTokenState } from '../../backends/local/command/executions.ts';
import { Keeper } from '../../backends/local/command/keeper.ts';
import type { CommandSpec } from '../../backends/local/command/keeper-wire.ts';
import {
  type ExitRecord,
  isExitRecord,
  markOf,
  pathsIn,
  type TokenPaths,
} from '../../backends/local/command/layout.ts';
import { COMMAND_DEFAULTS } from '../../backends/local/command/options.ts';
import { endOf } from '../../backends/local/command/outcome.ts';
import type { Env } from '../../kit/env/env.ts';
import { plainEnvironment } from '../../kit/process/environment.ts';
import { markVariable } from '../../kit/process/marked.ts';
import { isNotPlain, readPlainFileRecord } from '../../kit/record-file.ts';
import { jobFiles, workspacePaths } from '../../spool/layout.ts';
import { isMissing, readPlainText } from '../../spool/plain-files.ts';
import type { AbandonedRuns, RunState } from '../../spool/repair.ts';
import type { Spool } from '../../spool/spool.ts';
import type { JobHandler, JobOutcome, SpoolJob } from './handler.ts';

export interface CommandRunsOptions {
  readonly env: Env;
  readonly spool: Spool;
  /** The id of the spool: part of the mark by which the processes of a command are found. */
  readonly spoolId: string;
}

export interface SpoolCommand {
  readonly argv: readonly string[];
  /** The working directory; by default the empty folder `work` of the attempt. */
  readonly cwd?: string | undefined;
}

const runFolder = (attempt: number): string => `run-${attempt}`;

export class CommandRuns implements AbandonedRuns {
  readonly #options: CommandRunsOptions;
  /** By the id of the actor in whose folder they make new ones. */
  readonly #keepers = new Map<string, Keeper>();

  constructor(options: CommandRunsOptions) {
    this.#options = options;
  }

  handler(command: SpoolCommand): JobHandler {
    return (job) => this.#run(command, job);
  }

  /** What has become of the command of a job whose agent is dead. `watchdog` is the actor that asks. */
  async look(watchdog: string, folder: string, attempt: number): Promise<RunState> {
    const paths = this.#pathsOf(folder, attempt);
    const { disk } = this.#options.env;
    // Whoever has dropped the job may have put a link there.
    if ((await disk.lstat(paths.folder))?.kind !== 'folder') return { is: 'none' };
    const state = await readTokenState(disk, paths);
    if (state.is === 'absent' || state.is === 'tombstone') return { is: 'none' };
    if (state.is === 'ended') return this.#stateOf(paths, state.exit);
    const keeper = this.#keeperOf(watchdog);
    if (state.is === 'orphaned') await keeper.adopt(paths.name);
    if (await disk.lstat(jobFiles(folder).kill)) keeper.kill(paths.name);
    return { is: 'running' };
  }

  async #run(command: SpoolCommand, job: SpoolJob): Promise<JobOutcome> {
    const { disk } = this.#options.env;
    const keeper = this.#keeperOf(basename(dirname(job.folder)));
    const paths = this.#pathsOf(job.folder, job.attempt);
    // It was a plain file when the job was claimed; whoever has dropped the job may have replaced it since.
    const { maxPromptBytes } = this.#options.spool.settings;
    const prompt = await readPlainText(disk, jobFiles(job.folder).prompt, maxPromptBytes);
    if (prompt.is !== 'text')
      return { ok: false, reason: `prompt.json ${prompt.is === 'bad' ? prompt.why : 'is gone'}` };
    const payload = Buffer.from(prompt.text);
    const staged = keeper.stage(payload.length);
    staged.writePayload(payload);
    const reply = await keeper.run(this.#specOf(command, job, paths), staged);
    if (reply.is !== 'accepted')
      return { ok: false, reason: reply.is === 'failed' ? reply.message : reply.is };
    const stop = (): void => void keeper.kill(paths.name);
    job.signal.addEventListener('abort', stop);
    if (job.signal.aborted) stop();
    await keeper.ended(paths.name);
    job.signal.removeEventListener('abort', stop);
    const exit = await readPlainFileRecord(disk, paths.exit, isExitRecord);
    const state: RunState = exit
      ? await this.#stateOf(paths, exit)
      : { is: 'lost', why: 'its end is not known' };
    if (state.is === 'ended') return state.outcome;
    return { ok: false, reason: state.is === 'lost' ? state.why : state.is, isUnknown: true };
  }

  /** The command can reach its output: what is gone, no plain file, or not the JSON that it was, is no result. */
  async #stateOf(paths: TokenPaths, exit: ExitRecord): Promise<RunState> {
    try {
      return await this.#endedState(paths, exit);
    } catch (error) {
      if (!isNotPlain(error) && !isMissing(error) && !(error instanceof SyntaxError)) throw error;
      return {
        is: 'lost',
        why: `its output cannot be read: ${error instanceof Error ? error.message : error}`,
      };
    }
  }

  async #endedState({ stdout }: TokenPaths, exit: ExitRecord): Promise<RunState> {
    const end = await endOf(this.#options.env, stdout, exit);
    if (end.is === 'forgotten') return { is: 'lost', why: end.why ?? 'its end is not known' };
    const { outcome } = end;
    if (outcome.ok === true)
      return { is: 'ended', outcome: { ok: true, result: JSON.parse(outcome.resultText) as unknown } };
    if (outcome.ok !== false) return { is: 'ended', outcome: { ok: false, reason: 'it was ended by order' } };
    const { message: reason, retriable } = outcome.error;
    return { is: 'ended', outcome: { ok: false, reason, retriable } };
  }

  #pathsOf(folder: string, attempt: number): TokenPaths {
    const { root } = this.#options.spool.paths;
    return pathsIn({ executions: root }, join(relative(root, folder), runFolder(attempt)));
  }

  #keeperOf(actor: string): Keeper {
    const { spool, spoolId } = this.#options;
    let keeper = this.#keepers.get(actor);
    if (!keeper) {
      const { work } = workspacePaths(spool.paths, actor);
      keeper = new Keeper({ executions: spool.paths.root, staging: work }, spoolId);
      this.#keepers.set(actor, keeper);
    }
    return keeper;
  }

  #specOf({ argv, cwd }: SpoolCommand, job: SpoolJob, paths: TokenPaths): CommandSpec {
    const { env, spoolId } = this.#options;
    const { name, attempt, events, jobId = name, type, model } = job;
    return {
      name: paths.name,
      token: `${name}:${attempt}`,
      hash: undefined,
      jobId,
      model,
      argv,
      cwd,
      env: {
        ...plainEnvironment(),
        JOB_ID: jobId.replaceAll('\0', ''),
        ...(type !== undefined && { JOB_TYPE: type }),
        ...(model !== undefined && { JOB_MODEL: model }),
        JOB_EVENTS: events,
        ...markVariable(markOf(spoolId, paths.name)),
      },
      split: COMMAND_DEFAULTS.split,
      // The agent ends the command at its time.
      timeoutMs: undefined,
      maxOutputBytes: COMMAND_DEFAULTS.maxOutputBytes,
      offeredAt: env.clock.now(),
    };
  }
}
