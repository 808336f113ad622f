/** Errors of the queue and of its jobs as those of the AI SDK, which repeats a call if its error says so. */
import { APICallError } from 'ai';
import { ClientError } from '../client/client-error.ts';
import { OrchdError } from '../model/errors.ts';

export interface FailedCall {
  readonly url: string;
  readonly payload: unknown;
}

/** Anything that is no error of the queue is returned as it is. */
export function callError(error: unknown, { url, payload }: FailedCall): unknown {
  if (!(error instanceof ClientError || error instanceof OrchdError)) return error;
  const { code, message, retriable, status, next } = error;
  const retryAfterMs = error instanceof ClientError ? error.retryAfterMs : error.details.retryAfterMs;
  return new APICallError({
    message: next === undefined ? message : `${message}. ${next}`,
    url,
    requestBodyValues: payload,
    ...(status > 0 && { statusCode: status }),
    ...(retryAfterMs !== undefined && { responseHeaders: { 'retry-after-ms': String(retryAfterMs) } }),
    isRetryable: retriable,
    data: { code, message, retriable },
    cause: error,
  });
}
