/** What the log says about each record since the last checkpoint: the last after-image of every one. */
import type { JobBundle } from '../../../core/ports/store.ts';
import { FRESH_JOB } from '../../../model/moves.ts';
import type {
  AskRecord,
  AttemptRecord,
  BrainRecord,
  Change,
  FailureRecord,
  JobRecord,
  KeptChange,
  LeaseRecord,
} from '../../../model/records.ts';
import { keptName } from '../../../model/records.ts';
import { isOpen, isTerminal } from '../../../model/states.ts';
import { lastAttempts } from '../../records.ts';

interface JobDelta {
  /** Set when the log holds the job from its admission on: nothing older counts. */
  ask: AskRecord | undefined;
  job: JobRecord | undefined;
  readonly attempts: Map<number, AttemptRecord>;
  seq: number;
  /** An older checkpoint may know a former life of it. */
  former: boolean;
}

export class Delta {
  readonly jobs = new Map<string, JobDelta>();
  readonly failures = new Map<string, FailureRecord | null>();
  readonly leases = new Map<string, LeaseRecord | null>();
  /** Records of the kept kinds, by their one name. */
  readonly kept = new Map<string, KeptChange['after']>();
  brain: BrainRecord | undefined;
  readonly #olderFailures = new Map<string, FailureRecord>();
  readonly #since: number;

  /** `since` is the change up to which an older checkpoint may know the same jobs. */
  constructor(since: number) {
    this.#since = since;
  }

  add(change: Change, seq: number): void {
    switch (change.kind) {
      case 'ask':
        if (change.after) {
          const former = this.jobs.has(change.id) || change.after.n <= this.#since;
          this.jobs.set(change.id, { ask: change.after, job: FRESH_JOB, attempts: new Map(), seq, former });
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
        this.kept.set(keptName(change.kind, change.id), change.after);
    }
  }

  /** An entry of the older checkpoint. */
  keepFailure(id: string, failure: FailureRecord): void {
    this.#olderFailures.set(id, failure);
  }

  /** Oldest first: those of the older checkpoint on which the log has no other word, then those of the log. */
  *allFailures(): Generator<[string, FailureRecord]> {
    for (const [id, failure] of this.#olderFailures) if (!this.failures.has(id)) yield [id, failure];
    for (const [id, failure] of this.failures) if (failure) yield [id, failure];
  }

  /** An entry of the older checkpoint: the log has the last word. */
  keepLease(id: string, lease: LeaseRecord): void {
    if (!this.leases.has(id)) this.leases.set(id, lease);
  }

  keepRecord(name: string, record: KeptChange['after']): void {
    if (!this.kept.has(name)) this.kept.set(name, record);
  }

  /** The job as it is now, given what an older checkpoint knew of it; undefined where neither knows its ask. */
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
   * Lets go of a job that began and ended in this log and is in the history: a busy log holds far more of those
   * than there are live jobs. A dead one is kept: it may come back to life further on. So is one that had a life
   * before: the older checkpoint may know that one.
   */
  dropEnded(uid: string, indexedUpTo: number): JobBundle | undefined {
    const delta = this.jobs.get(uid);
    if (!delta?.ask || !delta.job || delta.seq > indexedUpTo || delta.former) return undefined;
    if (!isTerminal(delta.job.state) || delta.job.state === 'dead') return undefined;
    for (const attempt of delta.attempts.values()) if (isOpen(attempt.state)) return undefined;
    const bundle = this.bundle(uid, undefined);
    this.jobs.delete(uid);
    return bundle;
  }

  #of(uid: string, seq: number): JobDelta {
    let delta = this.jobs.get(uid);
    if (!delta) {
      delta = { ask: undefined, job: undefined, attempts: new Map(), seq, former: true };
      this.jobs.set(uid, delta);
    }
    delta.seq = seq;
    return delta;
  }
}
