/** Tells failures of a provider from errors of the caller's: only the former say something about the next job. */
import { type ErrorCode, type ErrorInfo, errorInfo } from '../../model/errors.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';

/** Failures of the provider that are not retriable by themselves. */
const PROVIDER_CODES: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['WORKER_PROTOCOL', 'WORKER_UNAVAILABLE']);

/** A request that a provider refuses fails again unchanged, anywhere: such an error is not retriable. */
export const isProviderFault = ({ code, retriable }: ErrorInfo): boolean =>
  retriable || PROVIDER_CODES.has(code);

/** Counts the end of an execution for the breaker of its backend, if a provider stands behind it. */
export function noteHealth(turn: Turn, name: string, error: ErrorInfo | undefined): void {
  if (!turn.fleet.backends.get(name)?.info.hasProvider) return;
  if (!error) turn.fleet.noteSuccess(name);
  else if (isProviderFault(error)) turn.fleet.noteFailure(name, turn.settings.breaker, turn.now);
}

/**
 * Counts a timeout as a failure of the provider, unless the caller has allowed less time than the backend by itself: that
 * says something about the caller.
 */
export function noteTimeout(turn: Turn, { ask }: JobEntry, name: string): void {
  const usualMs = turn.fleet.backends.get(name)?.info.timeoutMs ?? turn.settings.pools.workerTimeoutMs;
  if ((ask.spec.timeout_ms ?? usualMs) >= usualMs) noteHealth(turn, name, errorInfo('WORKER_TIMEOUT'));
}
