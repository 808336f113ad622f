/** A job in memory: its records, which follow from changes alone, and what is only remembered about it. */

import type { AskRecord, AttemptRecord, JobRecord } from '../../model/records.ts';
import type { Reservation } from '../limits/limiter.ts';
import type { JobBundle } from '../ports/store.ts';

/** Why a queued job is not in its lane. */
export type Parked = 'not_before' | 'session';

/** The persisted half of a job. Only `State.apply` replaces these fields. */
export interface JobRecords {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  /** The sequence of the last change: what a reader is told waits for it. */
  readonly seq: number;
  /** The attempt that holds a slot, if any. */
  readonly open: AttemptRecord | undefined;
  /** Its token: one string for all maps that know it. Empty without an open attempt. */
  readonly token: string;
  /** The last attempts that have ended, oldest first. */
  readonly past: readonly AttemptRecord[] | undefined;
}

/** The remembered half of a job: lost with the process, and made anew from the records or from what comes in. */
export class JobMemory {
  /** The lane in which the job waits. Written and read by queue/, which alone knows what a lane is. */
  lane: { readonly key: string } | undefined = undefined;
  /** Its place in the heap of its flow; -1 outside. Written by queue/, like the next two. */
  queuePos = -1;
  /** Since when it could have run. */
  readyAt = 0;
  readyOrder = 0;
  /** What it waits for outside of its lane. Written by State, like the next two. */
  parked: Parked | undefined = undefined;
  /** Its place among the timers; -1 outside. */
  timerPos = -1;
  wakeAt = Number.POSITIVE_INFINITY;
  /** The number of the last attempt that is known to have produced output; its executor says so again. */
  outputAttempt = 0;
  /** Tokens that its executor counted. */
  usedTokens: number | undefined = undefined;
  /** What it has taken out of the limits. Written by admission/. */
  reservation: Reservation | undefined = undefined;
}

/** One object for both halves: there may be a million of them. */
export class JobEntry extends JobMemory implements JobRecords {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  readonly seq: number;
  readonly open: AttemptRecord | undefined = undefined;
  readonly token: string = '';
  readonly past: readonly AttemptRecord[] | undefined = undefined;

  constructor(uid: string, ask: AskRecord, job: JobRecord, seq: number) {
    super();
    this.uid = uid;
    this.ask = ask;
    this.job = job;
    this.seq = seq;
  }

  /** When the job as a whole must have ended: a redriven one has its whole time once more. */
  get deadlineAt(): number | undefined {
    const { deadline_ms } = this.ask.spec;
    return deadline_ms === undefined ? undefined : (this.job.redrivenAt ?? this.ask.createdAt) + deadline_ms;
  }

  /** A queued job waits at least until this instant: set by its caller for the start, by a retry later. */
  get waitsUntil(): number {
    return this.job.notBefore ?? (this.job.attempt === 0 ? this.ask.spec.not_before : undefined) ?? 0;
  }
}

/** An entry as `State`, which replaces its records, and `Restore`, which makes it, see it. */
export type WritableRecords = { -readonly [K in keyof JobRecords]: JobRecords[K] };

/** A job with everything that belongs to it, as the history keeps it. */
export function bundleOf(entry: JobRecords): JobBundle {
  const past = entry.past ?? [];
  return {
    uid: entry.uid,
    ask: entry.ask,
    job: entry.job,
    attempts: entry.open ? [...past, entry.open] : past,
    seq: entry.seq,
  };
}
