/** A job in memory: its records, and where the indexes keep it. Only state.ts writes these fields. */
import type { AskRecord, AttemptRecord, JobRecord } from '../model/records.ts';
import type { Reservation } from './admission/limits/limiter.ts';
import type { Lane } from './queue/lane.ts';

/** Why a queued job is not in its lane. */
export type Parked = 'not_before' | 'session';

export class JobEntry {
  readonly uid: string;
  readonly ask: AskRecord;
  rec: JobRecord;
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

  constructor(uid: string, ask: AskRecord, rec: JobRecord, seq: number) {
    this.uid = uid;
    this.ask = ask;
    this.rec = rec;
    this.seq = seq;
  }

  /** When the job as a whole must have ended. */
  get deadlineAt(): number | undefined {
    const { deadlineAt, createdAt } = this.ask;
    const { redrivenAt } = this.rec;
    if (deadlineAt === undefined || redrivenAt === undefined) return deadlineAt;
    return deadlineAt - createdAt + redrivenAt;
  }

  /** A queued job waits at least until this instant: set by its caller for the start, by a retry later. */
  get waitsUntil(): number {
    return this.rec.notBefore ?? (this.rec.attempt === 0 ? this.ask.notBefore : undefined) ?? 0;
  }
}
