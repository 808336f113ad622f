/**
 * The changes of the log since the last checkpoint (the base), reduced to the last after-image of every record; merge.ts
 * combines them with the base.
 */
import type { JobBundle } from '../../../core/ports/store.ts';
import type { LeaseRecord } from '../../../model/lease-record.ts';
import { FRESH_JOB } from '../../../model/moves.ts';
import type {
  AskRecord,
  AttemptRecord,
  BrainRecord,
  Change,
  FailureRecord,
  JobRecord,
  SmallChange,
} from '../../../model/records.ts';
import { smallRecordName } from '../../../model/records.ts';
import { isOpen, isTerminal } from '../../../model/states.ts';
import { lastAttempts } from '../../records.ts';

interface JobDelta {
  /** Set where this log contains the job's admission; the base's version of the job is then obsolete. */
  ask: AskRecord | undefined;
  job: JobRecord | undefined;
  readonly attempts: Map<number, AttemptRecord>;
  seq: number;
  /** The base may hold an earlier version of this job, or an earlier job with the same uid. */
  mayBeInBase: boolean;
}

export class Delta {
  readonly jobs = new Map<string, JobDelta>();
  readonly failures = new Map<string, FailureRecord | null>();
  readonly leases = new Map<string, LeaseRecord | null>();
  /** Records of the SMALL_KINDS, keyed by smallRecordName(). */
  readonly kept = new Map<string, SmallChange['after']>();
  brain: BrainRecord | undefined;
  /** The failure cache of the base. */
  readonly #baseFailures = new Map<string, FailureRecord>();
  readonly #baseSeq: number;

  /** `baseSeq` is the last change that the base contains; 0 without a base. */
  constructor(baseSeq: number) {
    this.#baseSeq = baseSeq;
  }

  add(change: Change, seq: number): void {
    switch (change.kind) {
      case 'ask':
        if (change.after) {
          const mayBeInBase = this.jobs.has(change.id) || change.after.n <= this.#baseSeq;
          this.jobs.set(change.id, {
            ask: change.after,
            job: FRESH_JOB,
            attempts: new Map(),
            seq,
            mayBeInBase,
          });
        }
        return;
      case 'job': {
        const delta = this.#of(change.id, seq);
        if (change.after) delta.job = change.after;
        return;
      }
      case 'attempt':
        if (change.after) this.#of(change.after.job, seq).attempts.set(change.after.n, change.after);
        return;
      case 'failure':
        // Deleted first, so that the entry moves to the end: allFailures() yields the oldest first.
        this.failures.delete(change.id);
        this.failures.set(change.id, change.after);
        return;
      case 'brain':
        if (change.after) this.brain = change.after;
        return;
      case 'lease':
        this.leases.set(change.id, change.after);
        return;
      default:
        this.kept.set(smallRecordName(change.kind, change.id), change.after);
    }
  }

  /** Adds a failure of the base; allFailures() leaves it out where the log has changed it. */
  keepFailure(id: string, failure: FailureRecord): void {
    this.#baseFailures.set(id, failure);
  }

  /** Oldest first: the entries of the base that the log does not change, then those of the log. */
  *allFailures(): Generator<[string, FailureRecord]> {
    for (const [id, failure] of this.#baseFailures) if (!this.failures.has(id)) yield [id, failure];
    for (const [id, failure] of this.failures) if (failure) yield [id, failure];
  }

  /** Adds a lease of the base, unless the log has changed it. */
  keepLease(id: string, lease: LeaseRecord): void {
    if (!this.leases.has(id)) this.leases.set(id, lease);
  }

  /** Adds a record of the base, unless the log has changed it. */
  keepRecord(name: string, record: SmallChange['after']): void {
    if (!this.kept.has(name)) this.kept.set(name, record);
  }

  /** The current job, merged from the base's version and the log; undefined where neither contains its admission. */
  bundle(uid: string, base: JobBundle | undefined): JobBundle | undefined {
    const delta = this.jobs.get(uid);
    if (!delta) return base;
    const older = delta.ask ? undefined : base;
    const ask = delta.ask ?? older?.ask;
    const job = delta.job ?? older?.job;
    if (!ask || !job) return undefined;
    const attempts = new Map((older?.attempts ?? []).map((attempt) => [attempt.n, attempt]));
    for (const [n, attempt] of delta.attempts) attempts.set(n, attempt);
    return { uid, ask, job, attempts: lastAttempts([...attempts.values()]), seq: delta.seq };
  }

  /**
   * Removes and returns a job that began and ended in this log and is in the history: a busy log holds far more of
   * these than there are live jobs. Two kinds stay: a dead job, since a redrive may follow later in the log, and a job
   * that may be in the base, since the merge must replace the base's version.
   */
  dropEnded(uid: string, indexedUpTo: number): JobBundle | undefined {
    const delta = this.jobs.get(uid);
    if (!delta?.ask || !delta.job || delta.seq > indexedUpTo || delta.mayBeInBase) return undefined;
    if (!isTerminal(delta.job.state) || delta.job.state === 'dead') return undefined;
    for (const attempt of delta.attempts.values()) if (isOpen(attempt.state)) return undefined;
    const bundle = this.bundle(uid, undefined);
    this.jobs.delete(uid);
    return bundle;
  }

  #of(uid: string, seq: number): JobDelta {
    let delta = this.jobs.get(uid);
    if (!delta) {
      delta = { ask: undefined, job: undefined, attempts: new Map(), seq, mayBeInBase: true };
      this.jobs.set(uid, delta);
    }
    delta.seq = seq;
    return delta;
  }
}
