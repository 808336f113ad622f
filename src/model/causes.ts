/**
 * Why things change: the cause of every change, and why a worker is where it is. Data, so that nobody has to read
 * a sentence to act on it; the words for logs, the audit trail and people are made here and nowhere else.
 */

/** Why an attempt is to end. */
export type KillWhy = 'cancel' | 'timeout' | 'deadline' | 'busy' | 'refused' | 'lost';

/** Which class of jobs had the turn, and by which rule. */
export type PickReason = 'only-class' | 'interactive-first' | 'batch-share';

/** Causes that say everything by their name. */
const PLAIN = [
  // jobs and attempts
  'submit',
  'redrive',
  'accepted',
  'started',
  'succeeded',
  'failed',
  'cancelled',
  'retry',
  'dead',
  'expired',
  'drop-lru',
  'cancel',
  'lost',
  'not-run',
  'given-up',
  'tombstoned',
  're-attached',
  'spared',
  'forgotten',
  'force-retry',
  'worker-start-failed',
  // leases
  'granted',
  'heartbeat',
  'released',
  'moved',
  // models, sessions, limits, pools and workers
  'registered',
  'changed',
  'active',
  'retired',
  'measured',
  'begun',
  'used',
  'budget',
  'deleted',
  'settled',
  'session-over',
  'learned',
  'reloaded',
  'found',
  'ready',
  'died',
  // the brain
  'open',
  'purge',
] as const;

export type PlainCause = (typeof PLAIN)[number];

export type Cause =
  | PlainCause
  /** A backend was chosen. `place` is set where it was not the load alone that decided. */
  | { readonly is: 'claim'; readonly pick: PickReason; readonly place?: string }
  | { readonly is: 'kill'; readonly why: KillWhy }
  /** An operator's word. */
  | { readonly is: 'redrive' | 'drain' | 'undrain' | 'reload' | 'set'; readonly by: string }
  | { readonly is: 'resolve'; readonly as: 'retry' | 'failed' | 'succeeded'; readonly by: string }
  | { readonly is: 'on-unknown'; readonly policy: 'retry' | 'fail' }
  | { readonly is: 'verified'; readonly verdict: string }
  /** A worker was ordered, drained or stopped, or is gone after it was stopped. */
  | { readonly is: 'start' | 'draining' | 'stopping' | 'stopped'; readonly why: WorkerReason }
  /** A worker is shown by a pool of another name. */
  | { readonly is: 'worker-moved'; readonly pool: string }
  /** Written as a sentence, by a version that had no other way. */
  | { readonly is: 'text'; readonly text: string };

/** Why a worker was started, or why it goes. */
export type WorkerReason =
  | { readonly is: 'found' | 'demand' | 'load' | 'idle' | 'drained-by-manager' }
  | { readonly is: 'prewarm'; readonly because: string }
  | { readonly is: 'failed'; readonly code: string }
  /** To make room for another model, by the policy of eviction or after a drain. */
  | { readonly is: 'evicted'; readonly policy: string; readonly for: string }
  | { readonly is: 'drained'; readonly for: string }
  /** An operator's word about the worker, or about its pool. */
  | { readonly is: 'evicted-by' | 'pool-drained' | 'pool-reloaded' | 'reload'; readonly by: string }
  | { readonly is: 'text'; readonly text: string };

/** Told apart by their name: `redrive` with and without the word of an operator is the same thing. */
export const causeName = (cause: Cause): string => (typeof cause === 'string' ? cause : cause.is);

export function causeText(cause: Cause): string {
  if (typeof cause === 'string') return cause;
  switch (cause.is) {
    case 'claim':
      return cause.place === undefined ? `claim:${cause.pick}` : `claim:${cause.pick},${cause.place}`;
    case 'kill':
      return `kill:${cause.why}`;
    case 'resolve':
      return `resolve:${cause.as}:${cause.by}`;
    case 'on-unknown':
      return `on-unknown:${cause.policy}`;
    case 'verified':
      return `verified:${cause.verdict}`;
    case 'start':
    case 'draining':
    case 'stopping':
    case 'stopped':
      return `${cause.is}:${workerReasonText(cause.why)}`;
    case 'worker-moved':
      return `moved to ${cause.pool}`;
    case 'text':
      return cause.text;
    default:
      return `${cause.is}:${cause.by}`;
  }
}

export function workerReasonText(why: WorkerReason): string {
  switch (why.is) {
    case 'prewarm':
      return `prewarm (${why.because})`;
    case 'failed':
      return `failed: ${why.code}`;
    case 'evicted':
      return `evicted (${why.policy}) for ${why.for}`;
    case 'drained':
      return `drained for ${why.for}`;
    case 'drained-by-manager':
      return 'drained by its pool manager';
    case 'evicted-by':
      return `evicted by ${why.by}`;
    case 'pool-drained':
      return `the pool is drained by ${why.by}`;
    case 'pool-reloaded':
      return `the pool is reloaded by ${why.by}`;
    case 'reload':
      return `reload by ${why.by}`;
    case 'text':
      return why.text;
    default:
      return why.is;
  }
}

const IS_PLAIN: ReadonlySet<string> = new Set(PLAIN);

/** A stored cause. Earlier versions wrote texts, of which only the plain ones are told apart. */
export function readCause(stored: unknown): Cause {
  if (typeof stored !== 'string') return stored as Cause;
  return IS_PLAIN.has(stored) ? (stored as PlainCause) : { is: 'text', text: stored };
}
