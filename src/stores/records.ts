/**
 * The recovered records of a store in plain maps: for code that reads a store without running a brain on it (the
 * doctor, a migration, the rebuild of the history index).
 */

import type { JobBundle, LooseRecord, Recovery, Seq } from '../core/ports/store.ts';
import { isKept } from '../model/kept-attempts.ts';
import { FRESH_JOB } from '../model/moves.ts';
import {
  type AttemptRecord,
  type BrainRecord,
  type Change,
  type JobRecord,
  PAST_ATTEMPTS,
} from '../model/records.ts';
import { isOpen, isTerminal } from '../model/states.ts';

/** The job has reached a terminal state, and none of its attempts still holds a slot. */
export const isEnded = ({ job, attempts }: JobBundle): boolean =>
  isTerminal(job.state) && !attempts.some(({ state }) => isOpen(state));

/** The attempts that are kept of a job, in order: all open ones and the last PAST_ATTEMPTS of the others. */
export function lastAttempts(attempts: AttemptRecord[]): AttemptRecord[] {
  const sorted = attempts.filter(isKept).sort((a, b) => a.n - b.n);
  const closed = sorted.filter(({ state }) => !isOpen(state));
  if (closed.length <= PAST_ATTEMPTS) return sorted;
  const kept = new Set(closed.slice(-PAST_ATTEMPTS));
  return sorted.filter((attempt) => isOpen(attempt.state) || kept.has(attempt));
}

/** A record that belongs to no job, except the brain's own, which Records keeps in a field. */
export type OtherRecord = Exclude<LooseRecord, { readonly kind: 'brain' }>;

export class Records implements Recovery {
  readonly jobs = new Map<string, JobBundle>();
  /** Keyed by `<kind>/<id>`; iteration follows the order of the last write, which the failure cache depends on. */
  readonly others = new Map<string, OtherRecord>();
  brain: BrainRecord | undefined;
  /** The number of the last change. */
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
        // Deleted first, so that a rewritten record moves to the end of the map.
        if (kind !== 'brain') this.others.delete(`${kind}/${id}`);
        if (after) this.record({ kind, id, after } as LooseRecord);
    }
  }

  /** Drops ended jobs that the history holds: those whose last change is at or before `upTo`. */
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
