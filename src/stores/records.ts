/**
 * What a store has kept, as plain records by their ids: for those who look at a store without running a brain on it
 * (the doctor, a migration, an index that is made anew).
 */
import type { JobBundle, LooseRecord, Recovery, Seq } from '../core/ports/store.ts';
import { FRESH_JOB } from '../model/moves.ts';
import {
  type AttemptRecord,
  type BrainRecord,
  type Change,
  type JobRecord,
  PAST_ATTEMPTS,
} from '../model/records.ts';
import { isOpen, isTerminal } from '../model/states.ts';

/** The job is over, and no attempt of it holds a slot any more. */
export const isEnded = ({ job, attempts }: JobBundle): boolean =>
  isTerminal(job.state) && !attempts.some(({ state }) => isOpen(state));

/** In order: those that are open, and as many of the others as a job keeps. */
export function lastAttempts(attempts: AttemptRecord[]): AttemptRecord[] {
  attempts.sort((a, b) => a.n - b.n);
  const closed = attempts.filter(({ state }) => !isOpen(state));
  if (closed.length <= PAST_ATTEMPTS) return attempts;
  const kept = new Set(closed.slice(-PAST_ATTEMPTS));
  return attempts.filter((attempt) => isOpen(attempt.state) || kept.has(attempt));
}

/** The brain's record stands apart: what belongs to no job and is not it. */
export type OtherRecord = Exclude<LooseRecord, { readonly kind: 'brain' }>;

export class Records implements Recovery {
  readonly jobs = new Map<string, JobBundle>();
  /** By kind and id; failures in the order in which they were written. */
  readonly others = new Map<string, OtherRecord>();
  brain: BrainRecord | undefined;
  /** The last change. */
  seq: Seq = 0;

  job(bundle: JobBundle): void {
    this.jobs.set(bundle.uid, bundle);
  }

  record(record: LooseRecord): void {
    if (record.kind === 'brain') this.brain = record.after;
    else this.others.set(`${record.kind}/${record.id}`, record);
  }

  change(change: Change, seq: Seq): void {
    this.seq = seq;
    const { kind, id, after } = change;
    switch (kind) {
      case 'ask':
        if (after) this.job({ uid: id, ask: after, job: FRESH_JOB, attempts: [], seq });
        return;
      case 'job':
        if (after) this.#moveJob(id, after, seq);
        return;
      case 'attempt':
        if (after) this.#moveAttempt(after, seq);
        return;
      default:
        // Where it stood before no longer counts: the order is that of the last writing.
        if (kind !== 'brain') this.others.delete(`${kind}/${id}`);
        if (after) this.record({ kind, id, after } as LooseRecord);
    }
  }

  /** Lets go of ended jobs that the history has. */
  forgetEnded(upTo: Seq): void {
    for (const bundle of this.jobs.values()) {
      if (bundle.seq <= upTo && isEnded(bundle)) this.jobs.delete(bundle.uid);
    }
  }

  *ofKind<K extends OtherRecord['kind']>(kind: K): Generator<Extract<OtherRecord, { readonly kind: K }>> {
    for (const record of this.others.values()) {
      if (record.kind === kind) yield record as Extract<OtherRecord, { readonly kind: K }>;
    }
  }

  #moveJob(uid: string, job: JobRecord, seq: Seq): void {
    const bundle = this.jobs.get(uid);
    if (bundle) this.jobs.set(uid, { ...bundle, job, seq });
  }

  #moveAttempt(attempt: AttemptRecord, seq: Seq): void {
    const bundle = this.jobs.get(attempt.job);
    if (!bundle) return;
    const others = bundle.attempts.filter(({ n }) => n !== attempt.n);
    this.jobs.set(bundle.uid, { ...bundle, attempts: lastAttempts([...others, attempt]), seq });
  }
}
