/** A job in memory: its records, and where the indexes keep it. Only state.ts writes these fields. */
import type { AskRecord, AttemptRecord, JobRecord } from '../../model/records.ts';
import type { Reservation } from '../limits/limiter.ts';
import type { Lane } from '../queue/lane.ts';

/** Why a queued job is not in its lane. */
export type Parked = 'not_before' | 'session';

/** A job that is turned away busy again and again makes many attempts; only the last ones are worth keeping. */
export const PAST_ATTEMPTS = 16;

export class JobEntry {
  readonly uid: string;
  readonly ask: AskRecord;
  job: JobRecord;
  /** The sequence of the last change: what a reader is told waits for it. */
  seq: number;
  /** The attempt that holds a slot, if any. */
  open: AttemptRecord | undefined = undefined;
  /** Its token: one string for all maps that know it. Empty without an open attempt. */
  token = '';
  /** The last attempts that have ended, oldest first. */
  past: AttemptRecord[] | undefined = undefined;
  lane: Lane | undefined = undefined;
  parked: Parked | undefined = undefined;
  queuePos = -1;
  timerPos = -1;
  wakeAt = Number.POSITIVE_INFINITY;
  readyAt = 0;
  readyOrder = 0;
  /** The last attempt that is known to have said something. Not persisted: its executor says so again. */
  spoke = 0;
  /** What it has taken out of the limits. */
  reservation: Reservation | undefined = undefined;
  /** What its executor counted. */
  usedTokens: number | undefined = undefined;

  constructor(uid: string, ask: AskRecord, job: JobRecord, seq: number) {
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
