/** Answers that are errors, or do not come from orchd, and requests that get none. */
import { ERRORS } from '../model/errors.ts';
import { readError } from '../wire/read-error.ts';
import { ClientError } from './client-error.ts';

export function isOrchdAnswer({ status, headers }: Response): boolean {
  const type = headers.get('content-type') ?? '';
  return status === 204 || /^(application\/json|application\/x-ndjson|text\/event-stream)/.test(type);
}

/** `timeoutMs`: how long an answer was waited for. */
export function noAnswerError(base: string, error: Error, timeoutMs: number): ClientError {
  return unreachableError(0, noAnswerText(withoutCredentials(base), error, timeoutMs), true, {
    cause: error,
  });
}

function noAnswerText(url: string, error: Error, timeoutMs: number): string {
  if (error.name === 'TimeoutError') return `${url} did not answer within ${timeoutMs / 1000} s`;
  const cause = error.cause as (Error & { code?: string }) | undefined;
  switch (cause?.code) {
    case 'ECONNREFUSED':
      return `nothing answers at ${url}`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `there is no host "${new URL(url).hostname}"`;
    default:
      // A browser gives no cause that would help.
      return `${url} cannot be reached${cause ? ` (${cause.code ?? cause.message})` : ''}`;
  }
}

/**
 * An answer that is not from orchd. With a 5xx it is retriable: a proxy answers so while the brain behind it is down.
 */
export const notOrchdError = (base: string, status: number): ClientError =>
  unreachableError(
    status,
    `what answers at ${withoutCredentials(base)} is not orchd (HTTP ${status})`,
    status >= 500,
  );

function unreachableError(
  status: number,
  message: string,
  retriable: boolean,
  options?: ErrorOptions,
): ClientError {
  const { next } = ERRORS.UNREACHABLE;
  return new ClientError(status, { code: 'UNREACHABLE', message, retriable, next }, options);
}

/** The URL without user name and password. */
const withoutCredentials = (url: string): string => url.replace(/\/\/[^/]*@/, '//');

export async function errorOf(response: Response): Promise<ClientError> {
  const text = await response.text().catch(() => '');
  return new ClientError(response.status, readError(text) ?? { code: 'INTERNAL' });
}
