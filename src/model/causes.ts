/**
 * The cause of every change, and the reason for the state of a worker. Causes are data, so that code need not parse
 * sentences; their texts for logs, the audit trail and people are made only here (docs/decisions/0017).
 */

import type { RouteReason } from './route.ts';
import type { WakeReason } from './waiting.ts';

/** Why a kill of an attempt was ordered. */
export type KillWhy = 'cancel' | 'timeout' | 'deadline' | 'busy' | 'refused' | 'lost';

/** The rule by which the class of a picked job was chosen; `sticky`: the backend with its conversation was free. */
export type PickReason = 'only-class' | 'interactive-first' | 'batch-share' | 'sticky';

/** Why a job was picked and, unless the load alone decided, why it was placed there. */
export interface ClaimCause {
  readonly is: 'claim';
  readonly pick: PickReason;
  readonly place?: string;
}

/** Causes without further data. They are persisted: never rename or remove one. */
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
  'token-taken',
  'turned-away',
  'waits',
  'stored',
  'forgotten',
  'force-retry',
  'displaced',
  'dependency',
  'worker-start-failed',
  'claimed-by-consumer',
  'returned',
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
  'said',
  'budget',
  'deleted',
  'archived',
  'restored',
  'settled',
  'overrun',
  'session-over',
  'silent',
  'left',
  'learned',
  'reloaded',
  'found',
  'ready',
  'died',
  // the brain
  'open',
  'purge',
  'clock-step',
  'copied',
  'rest-purge',
  'disagreement',
  'reconciled',
  'fenced',
] as const;

export type PlainCause = (typeof PLAIN)[number];

export type Cause =
  | PlainCause
  /** A backend was chosen. `place` is set if something other than the load decided. */
  | ClaimCause
  | { readonly is: 'kill'; readonly why: KillWhy }
  /** The job goes on to another model of its route. */
  | { readonly is: 'routed'; readonly why: RouteReason }
  /** A waiting job goes on. */
  | { readonly is: 'wake'; readonly why: WakeReason }
  /** A command of the operator `by`. */
  | {
      readonly is: 'redrive' | 'drain' | 'undrain' | 'reload' | 'set' | 'pause' | 'resume' | 'evict';
      readonly by: string;
    }
  | { readonly is: 'resolve'; readonly as: 'retry' | 'failed' | 'succeeded'; readonly by: string }
  | { readonly is: 'on-unknown'; readonly policy: 'retry' | 'fail' }
  | { readonly is: 'verified'; readonly verdict: string }
  /** The mode of governance was changed by a person, a trigger or a broken rule. */
  | { readonly is: 'mode'; readonly to: string; readonly by: string }
  /** A rule of governance was broken by a job. */
  | { readonly is: 'violation'; readonly rule: string; readonly job: string }
  /** The cost of a scope has reached this share of its budget, in percent. */
  | { readonly is: 'budget-share'; readonly percent: number }
  /** A worker was ordered, is drained, is stopped, or has gone after a stop. */
  | { readonly is: 'start' | 'draining' | 'stopping' | 'stopped'; readonly why: WorkerReason }
  /** A worker is now reported by a pool of another name. */
  | { readonly is: 'worker-moved'; readonly pool: string }
  /** The manager has started the ordered worker under a name of its own. */
  | { readonly is: 'worker-named'; readonly id: string }
  /** A cause that an earlier version stored as a sentence. */
  | { readonly is: 'text'; readonly text: string };

/** Why a worker was started, or why it is leaving. */
export type WorkerReason =
  | { readonly is: 'found' | 'demand' | 'load' | 'idle' | 'too-many-workers' | 'drained-by-manager' }
  | { readonly is: 'prewarm'; readonly because: string }
  | { readonly is: 'failed'; readonly code: string }
  /** Evicted or drained to make room for the model `for`. */
  | { readonly is: 'evicted'; readonly policy: string; readonly for: string }
  | { readonly is: 'drained'; readonly for: string }
  /** A command of the operator `by` for the worker or its pool. */
  | { readonly is: 'evicted-by' | 'pool-drained' | 'pool-reloaded' | 'reload'; readonly by: string }
  /** Kept for this worker pool; or given up by it. */
  | { readonly is: 'worker-pool' | 'worker-pool-over'; readonly pool: string }
  | { readonly is: 'text'; readonly text: string };

/** The name of a cause without its data: `redrive` with and without an operator has the same name. */
export const causeName = (cause: Cause): string => (typeof cause === 'string' ? cause : cause.is);

export function causeText(cause: Cause): string {
  if (typeof cause === 'string') return cause;
  switch (cause.is) {
    case 'claim':
      return cause.place === undefined ? `claim:${cause.pick}` : `claim:${cause.pick},${cause.place}`;
    case 'kill':
    case 'routed':
    case 'wake':
      return `${cause.is}:${cause.why}`;
    case 'resolve':
      return `resolve:${cause.as}:${cause.by}`;
    case 'on-unknown':
      return `on-unknown:${cause.policy}`;
    case 'mode':
      return `mode:${cause.to}:${cause.by}`;
    case 'violation':
      return `violation:${cause.rule}:${cause.job}`;
    case 'verified':
      return `verified:${cause.verdict}`;
    case 'budget-share':
      return `budget-share:${cause.percent}`;
    case 'start':
    case 'draining':
    case 'stopping':
    case 'stopped':
      return `${cause.is}:${workerReasonText(cause.why)}`;
    case 'worker-named':
      return `started as ${cause.id}`;
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
      return `its pool was drained by ${why.by}`;
    case 'pool-reloaded':
      return `its pool was reloaded by ${why.by}`;
    case 'reload':
      return `reload by ${why.by}`;
    case 'worker-pool':
      return `kept for the worker pool ${why.pool}`;
    case 'worker-pool-over':
      return `given up by the worker pool ${why.pool}`;
    case 'text':
      return why.text;
    default:
      return why.is;
  }
}

const IS_PLAIN: ReadonlySet<string> = new Set(PLAIN);

/** Reads a stored cause. Earlier versions stored texts; those that are no plain cause become `text`. */
export function readCause(stored: unknown): Cause {
  if (typeof stored !== 'string') return stored as Cause;
  return IS_PLAIN.has(stored) ? (stored as PlainCause) : { is: 'text', text: stored };
}
