/** The error of every call of the client. */
import type { ParsedError } from '../wire/read-error.ts';

/** An unsuccessful answer, or no answer at all. `code` is stable; `message` is human-readable and may change. */
export class ClientError extends Error {
  readonly code: string;
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** Whether the same call may succeed later. */
  readonly retriable: boolean;
  /** What the caller can do about it. */
  readonly next: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(status: number, error: ParsedError, options?: ErrorOptions) {
    super(error.message ?? `the server answered ${status}`, options);
    this.name = 'ClientError';
    this.code = error.code;
    this.status = status;
    this.retriable = error.retriable ?? status >= 500;
    this.next = error.next;
    this.retryAfterMs = error.retry_after_ms;
  }
}
