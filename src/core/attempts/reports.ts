/** The reports about attempts that the engine receives. */
import type { ErrorInfo } from '../../model/errors.ts';
import type { BusyReason } from '../../model/reasons.ts';
import type { Outcome } from '../ports/backend.ts';

export type OfferAnswer =
  | { readonly is: 'accepted' }
  | { readonly is: 'busy'; readonly retryAfterMs?: number; readonly why?: BusyReason }
  | { readonly is: 'refused'; readonly error: ErrorInfo }
  | { readonly is: 'conflict' }
  /** The offer was never sent. */
  | { readonly is: 'unsent' }
  | { readonly is: 'unknown' };

/**
 * The result of inspecting a token. `absent`: it certainly did not start, because the executor's memory reaches back far
 * enough. `forgotten`: it may have run. `conflict`: the token has run another body, so that this one never will.
 */
export type Finding =
  | { readonly is: 'running' }
  | { readonly is: 'ended'; readonly outcome: Outcome }
  | { readonly is: 'absent' }
  | { readonly is: 'conflict' }
  | Forgotten;

/** Nobody can say what became of the attempt. */
export interface Forgotten {
  readonly is: 'forgotten';
  /** What is known of its end. */
  readonly error?: ErrorInfo | undefined;
  /** The executor knows that it does not run any more; one that has lost its memory does not. */
  readonly isGone?: boolean;
  /** The attempt was not accepted, and its executor is still the one that it was decided for: its offer may yet arrive there. */
  readonly mayArrive?: boolean;
}

export type KillAnswer =
  | { readonly is: 'ended'; readonly outcome: Outcome }
  /** The attempt did not run and never will: the executor refuses the token from now on. */
  | { readonly is: 'tombstoned' }
  /** The attempt will not run from now on, but the executor cannot tell whether it did. */
  | Forgotten
  /** The attempt runs after all, and was left running. */
  | { readonly is: 'running' }
  | { readonly is: 'conflict' };
