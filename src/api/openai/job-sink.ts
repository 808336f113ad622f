/** Translates the relayed events of a job into calls of a listener, which builds an answer in OpenAI's format. */
import { type ErrorInfo, isErrorCode, OrchdError } from '../../model/errors.ts';
import type { JobCost } from '../../model/http/jobs.ts';
import type { Reason } from '../../model/reasons.ts';
import type { TokenEvent } from '../../model/worker-wire.ts';
import type { RelayedEvent } from '../../relay/execution-log.ts';
import type { Sink } from '../../relay/follower.ts';
import type { JobResult } from './large-results.ts';

export interface JobListener {
  token(text: string, delta: TokenEvent['delta']): void;
  /** `attempt`: a new attempt starts and its output begins again. `gap`: events of the current attempt were lost. */
  reset(cause: 'attempt' | 'gap'): void;
  ended(result: JobResult): void;
  failed(error: OrchdError): void;
  /** Called after each batch of events; false while the listener can accept no more. */
  flush(): boolean;
}

export class JobSink implements Sink {
  readonly #listener: JobListener;
  /** The last event with an id, which begins with the number of its attempt. */
  #lastWithId: RelayedEvent | undefined;
  #isEnded = false;
  /** What the job has cost; known once it has ended, if it has a price. */
  cost: JobCost | undefined;

  constructor(to: JobListener) {
    this.#listener = to;
  }

  write(events: readonly RelayedEvent[]): boolean {
    for (const event of events) this.#handle(event);
    return this.#listener.flush();
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#listener.failed(new OrchdError('SHUTTING_DOWN', 'orchd stopped before the answer was complete'));
    this.#listener.flush();
  }

  #handle(event: RelayedEvent): void {
    if (event.event === 'token') {
      const { t, delta } = dataOf(event) as Partial<TokenEvent>;
      this.#listener.token(typeof t === 'string' ? t : '', delta);
    } else if (event.event === 'reset') this.#listener.reset(this.#resetCause(event));
    else if (event.event === 'end') {
      this.#isEnded = true;
      this.cost = costOf(event);
      const result = resultOf(event);
      if (result) this.#listener.ended(result);
      else this.#listener.failed(new OrchdError('RESULT_GONE'));
    } else if (event.event === 'error') {
      this.#isEnded = true;
      this.cost = costOf(event);
      this.#listener.failed(errorOf(dataOf(event)));
    }
    if (event.id !== undefined) this.#lastWithId = event;
  }

  #resetCause(event: RelayedEvent): 'attempt' | 'gap' {
    const { attempt } = dataOf(event) as { attempt?: number };
    return attempt === Number.parseInt(this.#lastWithId?.id ?? '', 10) ? 'gap' : 'attempt';
  }
}

/** Undefined where the session of the job was deleted: every other job that has succeeded has a result. */
function resultOf(event: RelayedEvent): JobResult | undefined {
  if (event.large) return { large: event.large.value };
  const { result } = dataOf(event) as { result?: unknown };
  return result === undefined ? undefined : { value: result };
}

const costOf = (event: RelayedEvent): JobCost | undefined => (dataOf(event) as { cost?: JobCost }).cost;

const dataOf = ({ value, data }: RelayedEvent): unknown => value ?? JSON.parse(data) ?? {};

/** The error of a job that ended without a result, from the data of its `error` event. */
export function errorOf(value: unknown): OrchdError {
  const { code, message, retriable, reason, job_id } = value as Partial<ErrorInfo> & { job_id?: string };
  return new OrchdError(
    code !== undefined && isErrorCode(code) ? code : 'EXECUTION_FAILED',
    message ?? 'the job ended without a result',
    {
      ...(retriable !== undefined && { retriable }),
      // It may be the worker's own code, which is none of ours. "failed" says no more than that the job has an error.
      ...(reason !== undefined && reason !== 'failed' && { reason: reason as Reason }),
      ...(job_id !== undefined && { jobId: job_id }),
    },
  );
}
