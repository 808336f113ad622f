/** A job submitted for an OpenAI request: follows its events, and gives it up when the caller disconnects. */
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { JobCost, Submitted } from '../../model/http/jobs.ts';
import { uidOf } from '../../model/records.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import type { Follower } from '../../relay/follower.ts';
import { FROM_THE_START } from '../../runtime/following.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import type { Caller } from '../../runtime/prepare.ts';
import { COST, CURRENCY, JOB_ID_HEADER, PREDICTED_START_MS, QUEUE_POSITION } from '../../wire/headers.ts';
import type { Call } from '../../wire/route.ts';
import type { Disconnects } from '../disconnects.ts';
import { callerOf } from '../tasks.ts';
import { type JobListener, JobSink } from './job-sink.ts';
import { reportQueuePosition } from './queue-position.ts';

export interface JobDependencies {
  readonly orchestrator: Orchestrator;
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly disconnects: Disconnects;
  readonly currency: string;
}

export class SubmittedJob {
  readonly submitted: Submitted;
  readonly call: Call;
  readonly #dependencies: JobDependencies;
  #follower: Follower | undefined;
  #sink: JobSink | undefined;
  #isOpen = true;
  /** Set where the job has calls below it, whose costs its own record does not have. */
  cost: JobCost | undefined;

  constructor(dependencies: JobDependencies, call: Call, submitted: Submitted) {
    this.#dependencies = dependencies;
    this.call = call;
    this.submitted = submitted;
  }

  /** The headers of the answer; those of the cost only once the job has ended. */
  get headers(): Readonly<Record<string, string>> {
    const { job_id, status, queue_position, predicted_start_ms } = this.submitted;
    const cost = this.cost ?? this.#sink?.cost;
    const position = status === 'claimed' ? 0 : queue_position;
    return {
      [JOB_ID_HEADER]: job_id,
      ...(position !== undefined && { [QUEUE_POSITION]: String(position) }),
      ...(predicted_start_ms !== undefined && { [PREDICTED_START_MS]: String(predicted_start_ms) }),
      ...(cost && { [COST]: String(cost.amount), [CURRENCY]: this.#dependencies.currency }),
    };
  }

  /** Passes the events of the job to the listener, from the first one on. */
  follow(listener: JobListener): void {
    const { job_id } = this.submitted;
    const sink = new JobSink(listener);
    this.#sink = sink;
    const { tenant } = this.call.identity;
    this.#dependencies.orchestrator.follow(job_id, FROM_THE_START, sink, tenant, false).then(
      (follower) => {
        this.#follower = follower;
        if (!this.#isOpen) follower?.close();
      },
      // The job has ended and was deleted already, or the brain has stopped.
      () => sink.end(),
    );
  }

  ready(): void {
    this.#follower?.ready();
  }

  /** Sends the queue position as an SSE comment, now and whenever it changes, until cancelled. */
  reportQueuePosition(send: (comment: string) => void): Cancel {
    const { orchestrator, env } = this.#dependencies;
    const uid = uidOf(this.call.identity.tenant, this.submitted.job_id);
    return reportQueuePosition({ reads: orchestrator.reads, timers: env.timers, uid, send });
  }

  /** Stops following the job; the caller has its answer. */
  close(): void {
    this.#isOpen = false;
    this.#follower?.close();
  }

  /**
   * Stops following the job because the caller disconnected or its stream failed. There is no grace period: an answer
   * in OpenAI's format cannot be resumed.
   */
  abandon(): void {
    this.close();
    this.#dependencies.disconnects.cancelUnlessFollowed(this.submitted.job_id, this.call.identity);
  }
}

/** Submits the job; throws if admission refuses it. */
export async function submitJob(
  dependencies: JobDependencies,
  call: Call,
  request: SubmitRequest,
  caller: Caller = callerOf(call),
): Promise<SubmittedJob> {
  try {
    const submitted = await dependencies.orchestrator.submit(request, caller);
    return new SubmittedJob(dependencies, call, submitted);
  } catch (error) {
    if (!(error instanceof OrchdError) || error.code !== 'JOB_CONFLICT') throw error;
    const field = 'Idempotency-Key';
    throw new OrchdError('JOB_CONFLICT', 'this Idempotency-Key was used with another request', { field });
  }
}
