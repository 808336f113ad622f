/** Tells failures of a provider from errors of the caller's: only the former say something about the next job. */
import type { ErrorCode, ErrorInfo } from '../../model/errors.ts';
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
