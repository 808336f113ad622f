/** Translates the errors of an OpenAI-compatible server into OrchdErrors. */
import type { IncomingHttpHeaders } from 'node:http';
import { type ErrorDetails, OrchdError } from '../../model/errors.ts';
import { upstreamReason } from '../../model/reasons.ts';

const MAX_MESSAGE_CHARS = 500;
const MAX_RETRY_AFTER_MS = 3_600_000;
const TOO_LONG =
  /context_length_exceeded|exceed_context_size|maximum context length|context (size|window|length)/i;

export function errorFromReply(status: number, headers: IncomingHttpHeaders, body: Buffer): OrchdError {
  const detail = messageIn(body);
  const text =
    detail === '' ? `the upstream answered ${status}` : `the upstream answered ${status}: ${detail}`;
  const retryAfter = retryAfterOf(headers);
  if (status === 429) return new OrchdError('RATE_LIMITED', text, { ...retryAfter, policyLabel: 'upstream' });
  if (status === 503) return new OrchdError('WORKER_BUSY', text, retryAfter);
  if (status === 401 || status === 403) {
    return new OrchdError(
      'EXECUTION_FAILED',
      `the upstream does not accept the key of this worker (${status})`,
    );
  }
  if ((status === 400 || status === 413 || status === 422) && TOO_LONG.test(detail)) {
    return new OrchdError('CONTEXT_TOO_LONG', text);
  }
  const reason = upstreamReason(status);
  return new OrchdError('EXECUTION_FAILED', text, {
    retriable: status >= 500 || status === 408,
    ...(reason !== undefined && { reason }),
  });
}

/** The error for an error object in the middle of a stream. */
export function streamError(error: unknown): OrchdError {
  const message = messageOf(error);
  return TOO_LONG.test(message)
    ? new OrchdError('CONTEXT_TOO_LONG', message)
    : new OrchdError('EXECUTION_FAILED', `the upstream failed: ${message}`, { retriable: true });
}

export const protocolError = (what: string, reason?: 'connection_lost'): OrchdError =>
  new OrchdError('WORKER_PROTOCOL', `the upstream ${what}`, reason === undefined ? {} : { reason });

function messageIn(body: Buffer): string {
  try {
    const value = JSON.parse(body.toString()) as { error?: unknown; message?: unknown };
    return messageOf(value.error ?? value);
  } catch {
    return '';
  }
}

function messageOf(error: unknown): string {
  if (typeof error === 'string') return error.slice(0, MAX_MESSAGE_CHARS);
  const { code, type, message } = (error ?? {}) as Record<string, unknown>;
  const words = [code ?? type, message].filter((word) => typeof word === 'string');
  return words.join(': ').slice(0, MAX_MESSAGE_CHARS);
}

function retryAfterOf(headers: IncomingHttpHeaders): ErrorDetails {
  const seconds = Number(headers['retry-after']);
  if (!Number.isFinite(seconds) || seconds <= 0) return {};
  return { retryAfterMs: Math.min(Math.ceil(seconds * 1000), MAX_RETRY_AFTER_MS) };
}
