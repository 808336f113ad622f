/**
 * The records of an executor that remembers over its own death, and the state that they make. The state changes by
 * `apply` alone, so that the file, read again, makes the same one.
 */
import type { ExecuteRequest, Usage, WorkerOutcome } from '../../model/worker-wire.ts';
import type { KnownOpenings } from '../../wire/epochs.ts';
import type { CallRecord } from './execution.ts';
import { totalUsage, usageOf } from './usage.ts';

/** A job of the executor's own queue. */
export interface QueuedJob {
  readonly id: string;
  readonly seat: string;
  readonly at: number;
  readonly state: 'queued' | 'running' | 'ended';
  /** How often it was begun: the number of the last attempt. */
  readonly attempts: number;
  /** The tokens of all attempts that have ended. */
  readonly usage?: Usage | undefined;
  /** Present until the job has ended: an attempt may have to be begun again after it was preempted. */
  readonly body?: ExecuteRequest | undefined;
  /** The attempt that is ended early, to make room for an immediate request. */
  readonly preempted?: number | undefined;
  readonly outcome?: WorkerOutcome | undefined;
  readonly endedAt?: number | undefined;
}

interface OfToken {
  readonly owner: string;
  readonly token: string;
}

export interface BeginRecord extends OfToken {
  readonly is: 'begin';
  readonly job: string;
  readonly hash?: string | undefined;
  readonly at: number;
  readonly call?: CallRecord | undefined;
}

export interface TombstoneRecord extends OfToken {
  readonly is: 'tombstone';
  readonly at: number;
}

export type KeptRecord =
  /** The first record of a file. `life` counts how often the file was opened. */
  | { readonly is: 'opened'; readonly registry: string; readonly life: number }
  /** Every token since then is known; the named one was removed to make room. */
  | ({ readonly is: 'since'; readonly since: number } & Partial<OfToken>)
  | { readonly is: 'opening'; readonly owner: string; readonly openings: KnownOpenings }
  | BeginRecord
  /** The provider's id of the call. */
  | ({ readonly is: 'upstream'; readonly id: string } & OfToken)
  | ({ readonly is: 'end'; readonly outcome: WorkerOutcome; readonly at: number } & OfToken)
  /** The outcome was collected, or dropped to make room. */
  | ({ readonly is: 'acknowledged' | 'dropped' } & OfToken)
  | TombstoneRecord
  | { readonly is: 'queued'; readonly job: QueuedJob }
  /** The attempt is about to be ended early; where it ends as cancelled, the job is the first of its queue again. */
  | { readonly is: 'preempted'; readonly id: string; readonly attempt: number }
  /** With an outcome the job is kept as ended; without one it is forgotten. */
  | {
      readonly is: 'removed';
      readonly id: string;
      readonly outcome?: WorkerOutcome | undefined;
      readonly at?: number;
    };

/** A token that was begun. */
export interface KeptExecution {
  readonly begin: BeginRecord;
  readonly upstreamId?: string | undefined;
  readonly end?: { readonly outcome: WorkerOutcome; readonly at: number } | undefined;
  /** Set once the outcome is no longer kept. */
  readonly gone?: 'acknowledged' | 'dropped' | undefined;
}

export type KeptToken = KeptExecution | { readonly tombstone: TombstoneRecord };

const keyOf = ({ owner, token }: OfToken): string => `${owner}/${token}`;

export class KeptState {
  /** The owner of the jobs in `jobs`. */
  readonly #queueOwner: string;
  registry = '';
  life = 0;
  since = 0;
  readonly openings = new Map<string, KnownOpenings>();
  /** In the order in which they were added. */
  readonly tokens = new Map<string, KeptToken>();
  /** In the order in which the queued ones are begun. */
  jobs = new Map<string, QueuedJob>();

  constructor(queueOwner: string) {
    this.#queueOwner = queueOwner;
  }

  apply(record: KeptRecord): void {
    switch (record.is) {
      case 'opened':
        this.registry = record.registry;
        this.life = record.life;
        return;
      case 'since':
        this.since = Math.max(this.since, record.since);
        if (record.owner !== undefined && record.token !== undefined)
          this.tokens.delete(keyOf({ owner: record.owner, token: record.token }));
        return;
      case 'opening':
        this.openings.set(record.owner, record.openings);
        return;
      case 'queued':
        this.jobs.set(record.job.id, record.job);
        return;
      case 'preempted':
        this.#change(record.id, { preempted: record.attempt });
        return;
      case 'removed':
        if (record.outcome) this.#endJob(record.id, record.outcome, record.at ?? 0);
        else this.jobs.delete(record.id);
        return;
      default:
        this.#applyToToken(record);
    }
  }

  /** The records that make this state. */
  *live(): Generator<KeptRecord> {
    yield { is: 'opened', registry: this.registry, life: this.life };
    yield { is: 'since', since: this.since };
    for (const [owner, openings] of this.openings) yield { is: 'opening', owner, openings };
    // The tokens come first: a `begin` of the queue changes a job that is there already.
    for (const kept of this.tokens.values()) yield* liveOfToken(kept);
    for (const job of this.jobs.values()) yield { is: 'queued', job };
  }

  #applyToToken(record: Extract<KeptRecord, OfToken>): void {
    const key = keyOf(record);
    if (record.is === 'tombstone') {
      this.tokens.set(key, { tombstone: record });
      return;
    }
    if (record.is === 'begin') {
      this.tokens.set(key, { begin: record });
      if (record.owner === this.#queueOwner) {
        this.#change(record.job, { state: 'running', attempts: attemptOf(record.token) });
      }
      return;
    }
    const kept = this.tokens.get(key);
    if (!kept || 'tombstone' in kept) return;
    if (record.is === 'upstream') this.tokens.set(key, { ...kept, upstreamId: record.id });
    else if (record.is === 'end') this.#end(key, kept, record);
    else this.tokens.set(key, { begin: kept.begin, gone: record.is });
  }

  #end(
    key: string,
    kept: KeptExecution,
    { outcome, at, owner, token }: Extract<KeptRecord, { is: 'end' }>,
  ): void {
    if (owner !== this.#queueOwner) {
      this.tokens.set(key, { ...kept, end: { outcome, at } });
      return;
    }
    // The queue is the only reader of its own results, and keeps them with its jobs.
    this.tokens.set(key, { begin: kept.begin, gone: 'acknowledged' });
    const job = this.jobs.get(kept.begin.job);
    if (!job) return;
    const usage = totalUsage(job.usage, usageOf(outcome));
    const isPreempted = job.preempted === attemptOf(token) && outcome.ok === 'cancelled';
    // A provider that turns a request away has done nothing for it.
    const isTurnedAway = outcome.ok === false && outcome.error.turned_away !== undefined;
    if (job.state === 'running' && (isPreempted || isTurnedAway)) {
      const { preempted: _, ...rest } = job;
      this.jobs.delete(job.id);
      this.jobs = new Map([[job.id, { ...rest, state: 'queued', usage }], ...this.jobs]);
    } else if (job.state === 'running') {
      this.#change(job.id, { usage });
      this.#endJob(job.id, outcome, at);
    } else this.#change(job.id, { usage });
  }

  #endJob(id: string, outcome: WorkerOutcome, endedAt: number): void {
    const job = this.jobs.get(id);
    if (!job) return;
    const { body: _, preempted: __, ...rest } = job;
    this.jobs.set(id, { ...rest, state: 'ended', outcome, endedAt });
  }

  #change(id: string, changes: Partial<QueuedJob>): void {
    const job = this.jobs.get(id);
    if (job) this.jobs.set(id, { ...job, ...changes });
  }
}

function* liveOfToken(kept: KeptToken): Generator<KeptRecord> {
  if ('tombstone' in kept) {
    yield kept.tombstone;
    return;
  }
  const { begin, upstreamId, end, gone } = kept;
  const { owner, token } = begin;
  yield begin;
  if (upstreamId !== undefined) yield { is: 'upstream', owner, token, id: upstreamId };
  if (end) yield { is: 'end', owner, token, ...end };
  if (gone) yield { is: gone, owner, token };
}

/** The number of the attempt in a token `<job>:<attempt>`. */
const attemptOf = (token: string): number => Number(token.slice(token.lastIndexOf(':') + 1));
