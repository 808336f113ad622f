/** Renders errors as HTTP answers; every error that a server of ours sends goes through here. */
import type { OrchdError } from '../model/errors.ts';
import type { ErrorBody } from '../model/http/errors.ts';
import { upstreamStatus } from '../model/reasons.ts';
import { BACKOFF_MS, RETRY_AFTER, SHOULD_RETRY } from './headers.ts';

export interface RenderedError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ErrorBody;
}

/** The error format: under `/v1` errors carry the fields of OpenAI's format in addition to ours. */
export type ErrorShape = 'orchd' | 'openai';

export const errorShapeOf = (url: string): ErrorShape => (/^\/v1(?:[/?]|$)/.test(url) ? 'openai' : 'orchd');

/** Upper limit of the Retry-After header; a caller may retry once a day however long it has to wait. */
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

export function renderError(
  error: OrchdError,
  correlationId: string,
  shape: ErrorShape = 'orchd',
): RenderedError {
  const { reason, field, position, jobId, jobIds, retryAfterMs, policyLabel } = error.details;
  const status = (shape === 'openai' ? upstreamStatus(reason) : undefined) ?? error.status;
  const described = {
    code: error.code,
    message: error.message,
    ...(shape === 'openai' && { type: typeOf(status), param: field || null }),
    retriable: error.retriable,
    next: error.next,
    correlation_id: correlationId,
    ...(reason !== undefined && { reason }),
    ...(field !== undefined && { field }),
    ...(position !== undefined && { position }),
    ...(jobId !== undefined && { job_id: jobId }),
    ...(jobIds !== undefined && { job_ids: jobIds }),
    ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
  };
  const headers: Record<string, string> = {};
  if (shape === 'openai') headers[SHOULD_RETRY] = String(error.retriable);
  if (retryAfterMs !== undefined) {
    // The headers hold whole, limited numbers; `retry_after_ms` in the body is exact.
    const waitMs = Math.min(Math.max(0, Math.ceil(retryAfterMs)), MAX_RETRY_AFTER_MS);
    headers[RETRY_AFTER] = String(Math.max(1, Math.ceil(waitMs / 1000)));
    headers[BACKOFF_MS] = String(waitMs);
  }
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (status !== 429) return { status, headers, body: { error: described } };
  // With status 429 these fields are also at the top level of the body (see model/http/errors.ts).
  const top = {
    policy_label: policyLabel ?? 'limit',
    retriable: error.retriable,
    retry_after_ms: retryAfterMs ?? 0,
  };
  return { status: 429, headers, body: { error: described, ...top } };
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};

const typeOf = (status: number): string =>
  TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error');
