/**
 * Hands each job of a spool to a brain.
 *
 * B1  The job at the brain is known by the spool, the name of the folder and a number. Whoever has the folder asks for the
 *     same id, so that a job which an agent has left, or died with, goes on at the brain and is not begun again.
 * B2  The number grows when, and only when, the job at the brain has ended without a result or was refused for good:
 *     `brain_tries` of `job.json` counts that, and is written with the status that follows from it. Neither `attempt` nor
 *     `retry_count` would do: both grow too when an agent dies whose job still runs at the brain.
 * B3  The agent keeps the job until its end at the brain is known, or leaves it: then nothing is said about the job.
 */
import { basename } from 'node:path';
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import type { Lifecycle } from '../../spool/envelope.ts';
import { readLifecycle } from '../../spool/job-folder.ts';
import { jobFiles } from '../../spool/layout.ts';
import type { AbandonedRuns, RunState } from '../../spool/repair.ts';
import type { Spool } from '../../spool/spool.ts';
import { type Brain, type BrainAnswer, type BrainJobEnd, type BrainRefusal, isForGood } from './brain.ts';
import { brainJobId, brainRequest } from './brain-request.ts';
import type { JobHandler, JobOutcome, SpoolJob } from './handler.ts';

/** The pauses after which a brain that takes no jobs now is asked again. */
const BRAIN_RETRY: BackoffPolicy = { baseDelayMs: 250, maxDelayMs: 15_000, jitter: 0.5 };

export interface BrainJobsOptions {
  readonly env: Env;
  readonly spool: Spool;
  readonly spoolId: string;
  readonly brain: Brain;
}

export class BrainJobs implements AbandonedRuns {
  readonly #options: BrainJobsOptions;
  /** Why the brain did nothing the last time it was asked; undefined while it answers. */
  #outage: string | undefined;

  constructor(options: BrainJobsOptions) {
    this.#options = options;
  }

  readonly handler: JobHandler = async (job) => {
    const tries = triesOf(job.lifecycle);
    const jobId = this.#idOf(job.name, job.lifecycle);
    const request = brainRequest(job.prompt, jobId);
    if (request.is === 'unusable') return { ok: false, reason: request.why };
    const outcome = await this.#run(job, jobId, request.body);
    // B2.
    return outcome.ok === false ? { ...outcome, changes: { brain_tries: tries + 1 } } : outcome;
  };

  /**
   * A job of a dead agent is nobody's to wait for: the next agent finds it at the brain (B1). But a kill that the agent did
   * not see is carried out here, since a killed job gets no next agent.
   */
  async look(_watchdog: string, folder: string): Promise<RunState> {
    const { spool, brain } = this.#options;
    if (!(await spool.env.disk.lstat(jobFiles(folder).kill))) return { is: 'none' };
    const read = await readLifecycle(spool, folder);
    if (read.is !== 'read') return { is: 'none' };
    const cancelled = await brain.cancel(this.#idOf(basename(folder), read.lifecycle));
    if (cancelled.is === 'done' || cancelled.refusal.code === 'NOT_FOUND') return { is: 'none' };
    this.#note(cancelled.refusal);
    return { is: 'running' };
  }

  #idOf(name: string, lifecycle: Lifecycle): string {
    return brainJobId(this.#options.spoolId, name, triesOf(lifecycle) + 1);
  }

  async #run({ signal, leave }: SpoolJob, jobId: string, request: BrainJobRequest): Promise<JobOutcome> {
    for (let failures = 0; !leave.aborted; ) {
      const step = signal.aborted
        ? await this.#cancel(jobId, leave)
        : await this.#ask(jobId, request, signal);
      if (step.is === 'ended') return step.outcome;
      failures = step.is === 'unavailable' ? failures + 1 : 1;
      this.#note(step.is === 'unavailable' ? step.refusal : undefined);
      const retryAfterMs = step.is === 'unavailable' ? step.refusal.retryAfterMs : undefined;
      await this.#rest(failures, retryAfterMs, signal.aborted ? leave : signal);
    }
    return { ok: 'left' };
  }

  async #ask(jobId: string, request: BrainJobRequest, signal: AbortSignal): Promise<Step> {
    const { brain } = this.#options;
    const submitted = await brain.submit(request);
    if (submitted.is === 'refused') {
      const { refusal } = submitted;
      if (!isForGood(refusal)) return { is: 'unavailable', refusal };
      return { is: 'ended', outcome: { ok: false, reason: textOf(refusal) } };
    }
    this.#note(undefined);
    return stepOf(await brain.ended(jobId, signal));
  }

  /** The order to end the job stands until the brain has carried it out, or the agent leaves. */
  async #cancel(jobId: string, leave: AbortSignal): Promise<Step> {
    const { brain } = this.#options;
    const cancelled = await brain.cancel(jobId);
    if (cancelled.is === 'done') return stepOf(await brain.ended(jobId, leave));
    const { refusal } = cancelled;
    // The brain was never asked for the job, or has forgotten it.
    if (refusal.code === 'NOT_FOUND') return { is: 'ended', outcome: { ok: false, reason: textOf(refusal) } };
    return { is: 'unavailable', refusal };
  }

  /** `undefined`: the brain answers. The begin and the end of an outage are one line each, however many jobs wait. */
  #note(refusal: BrainRefusal | undefined): void {
    const { logger } = this.#options.spool;
    const reason = refusal && textOf(refusal);
    if (reason === this.#outage) return;
    this.#outage = reason;
    if (refusal)
      logger.error('the brain takes no jobs now; they wait with their agent', {
        error_code: refusal.code,
        reason,
      });
    else logger.info('the brain takes jobs again');
  }

  #rest(failures: number, retryAfterMs = 0, signal: AbortSignal): Promise<void> {
    const { env } = this.#options;
    const backoff = backoffMs(BRAIN_RETRY, failures, env.random.next());
    return pause(env.timers, Math.max(backoff, retryAfterMs), signal);
  }
}

type BrainJobRequest = Readonly<Record<string, unknown>>;

type Step =
  | { readonly is: 'ended'; readonly outcome: JobOutcome }
  | { readonly is: 'unavailable'; readonly refusal: BrainRefusal }
  /** The wait was ended by a signal, or the job was queued again at the brain. */
  | { readonly is: 'live' };

/** A brain that does not know a job which it has taken has lost its data: the job is asked for again, not failed. */
function stepOf(answer: BrainAnswer<BrainJobEnd>): Step {
  if (answer.is === 'refused') return { is: 'unavailable', refusal: answer.refusal };
  const end = answer.value;
  if (end.is === 'live') return end;
  if (end.is === 'succeeded') return { is: 'ended', outcome: { ok: true, result: end.result } };
  return { is: 'ended', outcome: { ok: false, reason: end.reason } };
}

const textOf = ({ code, message }: BrainRefusal): string => `${code}: ${message}`;

/** B2. Anything else in the field was written by somebody else, and counts as none. */
function triesOf({ brain_tries: tries }: Lifecycle): number {
  return Number.isSafeInteger(tries) && Number(tries) > 0 ? Number(tries) : 0;
}
