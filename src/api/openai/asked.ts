/** One request that has become a job: who follows it, and what happens when its caller leaves. */
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Submitted } from '../../model/http/jobs.ts';
import { uidOf } from '../../model/records.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import type { Follower } from '../../relay/follower.ts';
import { FROM_THE_START } from '../../runtime/following.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import { JOB_ID_HEADER, PREDICTED_START_MS, QUEUE_POSITION } from '../../wire/headers.ts';
import type { Call } from '../../wire/route.ts';
import type { Disconnects } from '../disconnects.ts';
import { callerOf } from '../tasks.ts';
import { type JobListener, JobSink } from './job-sink.ts';
import { tellPlace } from './place.ts';

export interface AskParts {
  readonly orchestrator: Orchestrator;
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly disconnects: Disconnects;
}

export class Asked {
  readonly submitted: Submitted;
  readonly call: Call;
  readonly #parts: AskParts;
  #follower: Follower | undefined;
  #listens = true;

  constructor(parts: AskParts, call: Call, submitted: Submitted) {
    this.#parts = parts;
    this.call = call;
    this.submitted = submitted;
  }

  get headers(): Readonly<Record<string, string>> {
    const { job_id, status, queue_position, predicted_start_ms } = this.submitted;
    const position = status === 'claimed' ? 0 : queue_position;
    return {
      [JOB_ID_HEADER]: job_id,
      ...(position !== undefined && { [QUEUE_POSITION]: String(position) }),
      ...(predicted_start_ms !== undefined && { [PREDICTED_START_MS]: String(predicted_start_ms) }),
    };
  }

  /** Lets somebody hear what the job says. */
  follow(listener: JobListener): void {
    const { job_id } = this.submitted;
    const sink = new JobSink(listener);
    this.#parts.orchestrator.follow(job_id, FROM_THE_START, sink, this.call.identity.tenant).then(
      (follower) => {
        this.#follower = follower;
        if (!this.#listens) follower?.close();
      },
      // It has ended and is forgotten already, or the brain is.
      () => sink.end(),
    );
  }

  ready(): void {
    this.#follower?.ready();
  }

  /** Tells its place in the queue as often as that changes. */
  tellPlace(tell: (comment: string) => void): Cancel {
    const { orchestrator, env } = this.#parts;
    const uid = uidOf(this.call.identity.tenant, this.submitted.job_id);
    return tellPlace({ reads: orchestrator.reads, timers: env.timers, uid, tell });
  }

  /** The caller has the answer. */
  close(): void {
    this.#listens = false;
    this.#follower?.close();
  }

  /** The caller has left, or cannot be told any more: at once, since nobody can come back to an answer of this kind. */
  abandon(): void {
    this.close();
    this.#parts.disconnects.leftForGood(this.submitted.job_id, this.call.identity);
  }
}

/** Admits the job; refusals are thrown. */
export async function ask(parts: AskParts, call: Call, request: SubmitRequest): Promise<Asked> {
  try {
    const submitted = await parts.orchestrator.submit(request, callerOf(call));
    return new Asked(parts, call, submitted);
  } catch (error) {
    if (!(error instanceof OrchdError) || error.code !== 'JOB_CONFLICT') throw error;
    const field = 'Idempotency-Key';
    throw new OrchdError('JOB_CONFLICT', 'this Idempotency-Key was used with another request', { field });
  }
}
