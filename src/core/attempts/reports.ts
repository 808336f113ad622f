/** What executors report of an attempt, as the engine hears it. */
import type { ErrorInfo } from '../../model/errors.ts';
import type { Outcome } from '../ports/backend.ts';

export type OfferAnswer =
  | { readonly is: 'accepted' }
  | { readonly is: 'busy'; readonly retryAfterMs?: number }
  | { readonly is: 'refused'; readonly error: ErrorInfo }
  | { readonly is: 'unknown' };

/**
 * What an executor says of a token: `absent` is certain, from a memory that reaches back far enough;
 * `forgotten` is not.
 */
export type Finding =
  | { readonly is: 'running' }
  | { readonly is: 'ended'; readonly outcome: Outcome }
  | { readonly is: 'absent' }
  | { readonly is: 'forgotten' };

export type KillAnswer =
  | { readonly is: 'ended'; readonly outcome: Outcome }
  /** It did not run and never will: the executor refuses the token from now on. */
  | { readonly is: 'tombstoned' }
  /** It will not run from now on, but the executor cannot say whether it did. */
  | { readonly is: 'forgotten' }
  /** It runs after all. */
  | { readonly is: 'running' };
