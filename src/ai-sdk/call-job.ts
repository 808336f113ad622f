/** The job of a call: found or submitted, followed to its end, and cancelled when the program aborts the call. */
import type { JobSink } from '../api/openai/job-sink.ts';
import type { OrchdClient } from '../client/client.ts';
import { ClientError } from '../client/client-error.ts';
import { Patience } from '../client/patience.ts';
import { isTerminal, type JobState } from '../model/states.ts';
import type { SubmitRequest } from '../model/submit.ts';
import type { CallId } from './call-ids.ts';

export interface CallParts {
  readonly client: OrchdClient;
  /** How long to keep trying while the brain cannot be reached. */
  readonly patienceMs: number | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Jobs of the same question that have ended without an answer: after so many the program gets an error instead of another try. */
const MAX_ENDED = 100;

/**
 * Returns the job of a question: one that has an answer, one that will have, or a new one. Jobs that have ended without an
 * answer, in an earlier start of the program, are passed over: otherwise a call that was cancelled could never be made
 * again.
 */
export async function openJob(
  parts: CallParts,
  takeId: () => CallId,
  request: Omit<SubmitRequest, 'job_id'>,
): Promise<CallJob> {
  for (let ended = 0; ended < MAX_ENDED; ended++) {
    parts.signal?.throwIfAborted();
    const id = takeId();
    try {
      const state = await findOrSubmit(parts, { ...request, job_id: id.jobId });
      if (isTerminal(state) && state !== 'succeeded') continue;
      return new CallJob(parts, id);
    } catch (error) {
      id.release();
      throw error;
    }
  }
  throw new Error(`the same call has failed ${MAX_ENDED} times in this run; start it with another run id`);
}

/** A submit may be repeated: the same id is the same job. So it waits for a brain that restarts. */
async function findOrSubmit(
  parts: CallParts,
  request: SubmitRequest & { job_id: string },
): Promise<JobState> {
  const { client, signal, patienceMs } = parts;
  const patience = new Patience({ signal, patienceMs });
  for (;;) {
    try {
      return (await client.submit(request)).status;
    } catch (error) {
      // The id says what is asked: the job differs in its options only, such as the priority.
      if (error instanceof ClientError && error.code === 'JOB_CONFLICT')
        return (await client.get(request.job_id)).state;
      if (!isOutage(error)) throw error;
      await patience.failed(error);
      signal?.throwIfAborted();
    }
  }
}

/** A full queue (429) is no outage: the AI SDK decides whether to wait for it. */
const isOutage = (error: unknown): boolean =>
  error instanceof ClientError && error.retriable && (error.status === 0 || error.status >= 500);

export class CallJob {
  readonly id: CallId;
  readonly #parts: CallParts;
  readonly #left = new AbortController();
  #cancelled: Promise<unknown> | undefined;

  constructor(parts: CallParts, id: CallId) {
    this.#parts = parts;
    this.id = id;
    const { signal } = parts;
    if (signal?.aborted) this.#abort();
    // Not only while somebody reads: a stream whose reader pauses is aborted too.
    else signal?.addEventListener('abort', this.#abort, { once: true });
  }

  /** Tells the listener the events of the job, each as it comes, until the end. Throws when the program has aborted the call. */
  async *follow(sink: JobSink): AsyncGenerator<unknown> {
    const { client, patienceMs, signal } = this.#parts;
    try {
      const options = { signal: this.#left.signal, ...(patienceMs !== undefined && { patienceMs }) };
      for await (const { id, event, data } of client.events(this.id.jobId, options)) {
        sink.write([{ id, event, data: '', value: data }]);
        yield { event, data };
      }
    } finally {
      signal?.removeEventListener('abort', this.#abort);
    }
    // The program may exit now, and the job must not go on without it.
    await this.#cancelled;
    signal?.throwIfAborted();
  }

  /** Nobody reads any more. The job goes on, unless its `on_disconnect` says otherwise. */
  leave(): void {
    this.#parts.signal?.removeEventListener('abort', this.#abort);
    this.#left.abort();
  }

  readonly #abort = (): void => {
    this.#cancelled = this.#parts.client.cancel(this.id.jobId).catch(() => undefined);
    this.#left.abort();
  };
}
