/** The interface through which an agent uses a brain: submit, wait for the end, cancel. The command line has a client for it. */

/** Why a brain, or the way to it, has not done what was asked. */
export interface BrainRefusal {
  readonly code: string;
  readonly message: string;
  /** The HTTP status; 0 where there was no answer. */
  readonly status: number;
  readonly isRetriable: boolean;
  readonly retryAfterMs?: number | undefined;
}

export type BrainAnswer<T> =
  | { readonly is: 'done'; readonly value: T }
  | { readonly is: 'refused'; readonly refusal: BrainRefusal };

/** How a job at the brain has ended; `live`: it has not, as far as is known. */
export type BrainJobEnd =
  | { readonly is: 'succeeded'; readonly result: unknown }
  | { readonly is: 'failed'; readonly reason: string }
  | { readonly is: 'live' };

export interface Brain {
  /** Submits a job with an id of its own: of several submits with one id, one makes a job. */
  submit(request: Readonly<Record<string, unknown>>): Promise<BrainAnswer<void>>;
  /** Waits for the end of a job, or until the signal is aborted. */
  ended(jobId: string, signal: AbortSignal): Promise<BrainAnswer<BrainJobEnd>>;
  cancel(jobId: string): Promise<BrainAnswer<void>>;
}

/** Error codes that are about the agent, its token or the address, and not about the job. */
const NOT_OF_THE_JOB: ReadonlySet<string> = new Set(['UNAUTHORIZED', 'FORBIDDEN', 'FENCED', 'UNREACHABLE']);

/**
 * Whether the job would be refused again, whenever it is asked for. Everything else is waited for: a brain that is full,
 * away or starting, and a wrong token too, which would otherwise use up the retries of every job in the spool.
 */
export const isForGood = ({ code, status, isRetriable }: BrainRefusal): boolean =>
  status >= 400 && status < 500 && !isRetriable && !NOT_OF_THE_JOB.has(code);
