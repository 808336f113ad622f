/**
 * One job under an agent: runs its handler within its time, ends it when that is ordered, and decides what it ends with.
 */
import type { Env } from '../../kit/env/env.ts';
import type { Envelope, Lifecycle } from '../../spool/envelope.ts';
import { jobFiles } from '../../spool/layout.ts';
import { KILLED_BY_ORDER } from '../../spool/retry.ts';
import type { JobHandler, JobOutcome } from './handler.ts';

/** A job whose agent was stopped while its handler was at work. */
const AFTER_STOP = { is: 'returned', reason: 'its agent was stopped', hasBegun: true } as const;
/** A job whose agent was taken for dead while its handler was at work. */
export const AFTER_LOSS = { ...AFTER_STOP, reason: 'its agent was taken for dead' };
/** A job that its agent was claiming when it was stopped. */
export const NOT_BEGUN: JobEnd = { ...AFTER_STOP, hasBegun: false };

/** Why the agent ends a job before its handler does. */
export type StopReason = 'timeout' | 'killed' | 'agent stopped' | 'lost';

export type JobEnd =
  | { readonly is: 'succeeded'; readonly result: unknown }
  | {
      readonly is: 'failed' | 'killed';
      readonly reason: string;
      readonly changes?: Partial<Lifecycle> | undefined;
    }
  /** Nobody knows how far it came: it goes back to the queue, or to the brain that it belongs to. */
  | { readonly is: 'returned'; readonly reason: string; readonly hasBegun: boolean }
  /** It is not this agent's any more. */
  | { readonly is: 'lost' };

export class RunningJob {
  readonly envelope: Envelope;
  readonly #env: Env;
  readonly #handler: JobHandler;
  readonly #abort = new AbortController();
  readonly #leave = new AbortController();
  #stopReason: StopReason | undefined;

  constructor(env: Env, envelope: Envelope, handler: JobHandler) {
    this.envelope = envelope;
    this.#env = env;
    this.#handler = handler;
  }

  get name(): string {
    return this.envelope.runtime.name;
  }

  /** The first reason counts. */
  stop(reason: StopReason): void {
    this.#stopReason ??= reason;
    this.#abort.abort(reason);
    if (reason === 'agent stopped' || reason === 'lost') this.#leave.abort(reason);
  }

  /** Settles when nothing of the job runs any more. */
  async run(timeoutMs: number | undefined): Promise<JobEnd> {
    if (this.envelope.runtime.isFinished) return { is: 'succeeded', result: undefined };
    const cancel =
      timeoutMs === undefined ? undefined : this.#env.timers.after(timeoutMs, () => this.stop('timeout'));
    // Its end may have been ordered before an agent had it.
    await this.lookForKill().catch(() => undefined);
    const outcome = await this.#outcome();
    cancel?.();
    const end = endOf(outcome, this.#stopReason, timeoutMs);
    const isCutOff = !outcome.ok && outcome.isUnknown === true && this.#stopReason === undefined;
    const isOfBrain = this.envelope.lifecycle.token !== undefined;
    return isCutOff && isOfBrain ? { is: 'returned', reason: outcome.reason, hasBegun: true } : end;
  }

  /** Stops the job if somebody has put a `kill` into its folder. */
  async lookForKill(): Promise<void> {
    const { kill } = jobFiles(this.envelope.runtime.folder);
    if ((await this.#env.disk.lstat(kill)) !== undefined) this.stop('killed');
  }

  async #outcome(): Promise<JobOutcome> {
    const { prompt, lifecycle, runtime } = this.envelope;
    const { name, folder } = runtime;
    const { attempt, job_id: jobId, type, model } = lifecycle;
    const { events } = jobFiles(folder);
    try {
      const [signal, leave] = [this.#abort.signal, this.#leave.signal];
      const ofBrain = { events, jobId, type, model };
      return await this.#handler({ name, prompt, folder, ...ofBrain, attempt, lifecycle, signal, leave });
    } catch (error) {
      const { retriable } = (error ?? {}) as { readonly retriable?: unknown };
      const reason = error instanceof Error ? error.message : String(error);
      return { ok: false, reason, ...(retriable === false && { retriable }) };
    }
  }
}

/** A handler that has succeeded has succeeded, also when it was to be ended. */
export function endOf(
  outcome: JobOutcome,
  stopReason: StopReason | undefined,
  timeoutMs: number | undefined,
): JobEnd {
  if (stopReason === 'lost') return { is: 'lost' };
  if (outcome.ok === true) return { is: 'succeeded', result: outcome.result };
  if (stopReason === 'agent stopped' || outcome.ok === 'left') return AFTER_STOP;
  const { reason, retriable, changes } = outcome;
  if (stopReason === 'killed') return { is: 'killed', reason: KILLED_BY_ORDER, changes };
  if (stopReason === 'timeout')
    return { is: 'failed', reason: `it ran longer than ${timeoutMs} ms`, changes };
  return { is: 'failed', reason, changes: retriable === false ? { ...changes, retriable } : changes };
}
