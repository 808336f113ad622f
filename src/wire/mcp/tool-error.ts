/** The errors of tools as their callers see them: a result with a stable code, which says what to do next. */
import { type ErrorDetails, OrchdError } from '../../model/errors.ts';
import { ToolFailure } from './tool.ts';

/** An error of the brain, or one that the client library has read from its answer. */
interface KnownError {
  readonly code: string;
  readonly message: string;
  readonly retriable: boolean;
  readonly next?: string | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** Throws an error that nobody expects: whoever serves the request logs it, and its text is for nobody else. */
export function toolError(thrown: unknown): Readonly<Record<string, unknown>> {
  const isNamed = thrown instanceof ToolFailure;
  const error = isNamed ? thrown.cause : thrown;
  if (!isKnown(error)) throw error;
  const { code, message, retriable, next } = error;
  const details: ErrorDetails = error instanceof OrchdError ? error.details : {};
  const { reason, field, retryAfterMs = error.retryAfterMs } = details;
  return {
    error: {
      code,
      message,
      retriable,
      ...(next !== undefined && { next }),
      ...(isNamed && retriable && { ask_again_with: thrown.ids }),
      ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
      ...(reason !== undefined && { reason }),
      ...(field !== undefined && { field }),
    },
  };
}

function isKnown(error: unknown): error is KnownError {
  if (error instanceof OrchdError) return error.code !== 'INTERNAL';
  const { code, retriable } = error as Partial<KnownError>;
  return error instanceof Error && typeof code === 'string' && typeof retriable === 'boolean';
}
