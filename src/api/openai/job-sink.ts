/** What a job says, to whoever answers in OpenAI's words. */
import { type ErrorInfo, isErrorCode, OrchdError } from '../../model/errors.ts';
import type { TokenEvent } from '../../model/worker-wire.ts';
import type { RelayedEvent } from '../../relay/execution-log.ts';
import type { Sink } from '../../relay/follower.ts';

export interface JobListener {
  token(text: string, delta: TokenEvent['delta']): void;
  /** Another attempt begins, or some of what this one said is lost. */
  reset(why: 'attempt' | 'gap'): void;
  ended(result: unknown): void;
  failed(error: OrchdError): void;
  /** After the events of one turn; false where it can take no more now. */
  flush(): boolean;
}

export class JobSink implements Sink {
  readonly #to: JobListener;
  /** The last event that has an id. */
  #last: RelayedEvent | undefined;
  #over = false;

  constructor(to: JobListener) {
    this.#to = to;
  }

  write(events: readonly RelayedEvent[]): boolean {
    for (const event of events) this.#hear(event);
    return this.#to.flush();
  }

  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#to.failed(new OrchdError('SHUTTING_DOWN', 'orchd stopped before the answer was complete'));
    this.#to.flush();
  }

  #hear(event: RelayedEvent): void {
    if (event.event === 'token') {
      const { t, delta } = dataOf(event) as Partial<TokenEvent>;
      this.#to.token(typeof t === 'string' ? t : '', delta);
    } else if (event.event === 'reset') this.#to.reset(this.#whyReset(event));
    else if (event.event === 'end') {
      this.#over = true;
      this.#to.ended((dataOf(event) as { result?: unknown }).result);
    } else if (event.event === 'error') {
      this.#over = true;
      this.#to.failed(errorOf(dataOf(event)));
    }
    if (event.id !== undefined) this.#last = event;
  }

  #whyReset(event: RelayedEvent): 'attempt' | 'gap' {
    const { attempt } = dataOf(event) as { attempt?: number };
    return attempt === Number.parseInt(this.#last?.id ?? '', 10) ? 'gap' : 'attempt';
  }
}

const dataOf = ({ value, data }: RelayedEvent): unknown => value ?? JSON.parse(data) ?? {};

/** Why the job ended without a result. */
function errorOf(value: unknown): OrchdError {
  const { code, message, retriable, job_id } = value as Partial<ErrorInfo> & { job_id?: string };
  return new OrchdError(
    code !== undefined && isErrorCode(code) ? code : 'EXECUTION_FAILED',
    message ?? 'the job ended without a result',
    {
      ...(retriable !== undefined && { retriable }),
      ...(job_id !== undefined && { jobId: job_id }),
    },
  );
}
