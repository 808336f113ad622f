/** A job in memory: its persisted records, and the unpersisted fields that other parts of the core keep with it. */

import { isKept } from '../../model/kept-attempts.ts';
import { type AskRecord, type AttemptRecord, type JobRecord, PAST_ATTEMPTS } from '../../model/records.ts';
import type { Reservation } from '../limits/limiter.ts';
import type { JobBundle } from '../ports/store.ts';

/** Why a queued job is not in its lane. */
export type Parked = 'paused' | 'not_before' | 'after' | 'session' | 'quota' | 'sticky';

/** The persisted fields of a job. Only State replaces them, as it applies changes. */
export interface JobRecords {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  /** The sequence number of the job's last change: reads of the job wait until it is durable. */
  readonly seq: number;
  /** The attempt that holds a slot, if any. */
  readonly open: AttemptRecord | undefined;
  /** The token of the open attempt, one string shared by all maps; empty without an open attempt. */
  readonly token: string;
  /** The last attempts that have ended, oldest first. */
  readonly past: readonly AttemptRecord[] | undefined;
}

/** The unpersisted fields of a job. After a restart they are rebuilt from the records or from later reports. */
export class JobMemory {
  /** The lane in which the job waits. Written by queue/; `laneOf` gives it its full type. */
  lane: { readonly key: string } | undefined = undefined;
  /** Whether the job is in a lane, waiting for a backend. Written by queue/, like `readyAt` and `readyOrder`. */
  isWaiting = false;
  /** The instant since which the job could have run. */
  readyAt = 0;
  /** The job's number in the order in which the jobs of its class became ready in its lane. */
  readyOrder = 0;
  /** The reason why a queued job is not in its lane. Written by State, like `timerPos` and `wakeAt`; `quota` and `sticky` by queue/. */
  parked: Parked | undefined = undefined;
  /** The number of jobs whose end the job still waits for. Written by EndWaiters. */
  waitsFor = 0;
  /** The job's index in the heap of timers; -1 outside. */
  timerPos = -1;
  /** When time alone changes what should happen to the job; see wake.ts. */
  wakeAt = Number.POSITIVE_INFINITY;
  /** The number of the last attempt known to have produced output. After a restart its executor reports it again. */
  outputAttempt = 0;
  /** The tokens that the job used, as counted by its executor. */
  usedTokens: number | undefined = undefined;
  /** The job's reservation in the limiter. Written by admission/. */
  reservation: Reservation | undefined = undefined;
  /** While the job waits at a gate, or was let through: the list of that gate. While an attempt is open: its gates. Written by queue/. */
  quota: object | undefined = undefined;
}

/** Records and memory in one object: there may be a million jobs, and two objects each would cost more. */
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

  /** When the job as a whole must have ended. A redrive starts the time anew. */
  get deadlineAt(): number | undefined {
    const from = this.deadlineFrom;
    return from === undefined ? undefined : from + (this.ask.spec.deadline_ms ?? 0);
  }

  /** The instant from which the deadline counts; undefined without a deadline. */
  get deadlineFrom(): number | undefined {
    return this.ask.spec.deadline_ms === undefined ? undefined : (this.job.redrivenAt ?? this.ask.createdAt);
  }

  /**
   * Whether the job waits for an instant. A retry waits by brain time; a caller means the wall clock, and brain time may
   * be ahead of that.
   */
  waits(now: number, aheadMs: number): boolean {
    return this.waitsUntil > (this.job.notBefore === undefined ? now - aheadMs : now);
  }

  /** The earliest start of a queued job: set by its caller for the first attempt, by a retry for later ones. */
  get waitsUntil(): number {
    return this.job.notBefore ?? (this.job.attempt === 0 ? this.ask.spec.not_before : undefined) ?? 0;
  }
}

/** A JobEntry with writable records, for State, which replaces them, and Restore, which fills them. */
export type WritableRecords = { -readonly [K in keyof JobRecords]: JobRecords[K] };

/** The job with its attempts, in the form that the history stores. */
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

/** Adds an attempt to the job's past ones, in place; only the last PAST_ATTEMPTS are kept. */
export function withAttempt(entry: JobEntry, attempt: AttemptRecord): readonly AttemptRecord[] | undefined {
  const past = entry.past as AttemptRecord[] | undefined;
  if (!isKept(attempt)) return past;
  if (!past) return [attempt];
  if (past.push(attempt) > PAST_ATTEMPTS) past.shift();
  return past;
}
