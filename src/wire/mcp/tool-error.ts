/** The errors of tools as their callers see them: a result with a stable code, which says what to do next. */
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import { ToolFailure } from './tool.ts';

/** An error that the client library has read from an answer. */
interface AnsweredError {
  readonly code: string;
  readonly message: string;
  readonly retriable: boolean;
  readonly next?: string | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** Throws an error that nobody expects: whoever serves the request logs it, and its text is for nobody else. */
export function toolError(thrown: unknown): Readonly<Record<string, unknown>> {
  const { error, ids } =
    thrown instanceof ToolFailure ? { error: thrown.cause, ids: thrown.ids } : { error: thrown, ids: {} };
  const described = isAnswered(error) ? error : detailsOf(toOrchdError(error));
  if (described.code === 'INTERNAL' && !isAnswered(error)) throw error;
  const { code, message, retriable, next, retryAfterMs, ...rest } = described;
  const again = retriable && Object.keys(ids).length > 0;
  return {
    error: {
      code,
      message,
      retriable,
      ...(next !== undefined && { next }),
      ...(again && { ask_again_with: ids }),
      ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
      ...('reason' in rest && { reason: rest.reason }),
      ...('field' in rest && { field: rest.field }),
    },
  };
}

const isAnswered = (error: unknown): error is AnsweredError =>
  error instanceof Error &&
  !(error instanceof OrchdError) &&
  typeof (error as { code?: unknown }).code === 'string' &&
  typeof (error as { retriable?: unknown }).retriable === 'boolean';

function detailsOf(error: OrchdError) {
  const { reason, field, retryAfterMs } = error.details;
  return {
    code: error.code,
    message: error.message,
    retriable: error.retriable,
    next: error.next,
    retryAfterMs,
    ...(reason !== undefined && { reason }),
    ...(field !== undefined && { field }),
  };
}
