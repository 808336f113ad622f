/**
 * The records in memory with their indexes. apply(change) is the only mutation; everything else here follows
 * from the records, so that a replay of the same changes gives the same state.
 *
 * S1  A job is in a lane exactly when it is queued, its `notBefore` has passed and its session lets it run.
 * S2  A key belongs to at most one job that is not terminal.
 * S3  The slots in use of a backend are the attempts open on it.
 */

import { FRESH_JOB } from '../model/moves.ts';
import type { AttemptRecord, JobRecord } from '../model/records.ts';
import {
  type BrainRecord,
  type Change,
  type FailureRecord,
  type JobClass,
  type KeptChange,
  PAST_ATTEMPTS,
  type SessionRecord,
  scoped,
  tokenOf,
} from '../model/records.ts';
import { isOpen, isTerminal, type JobState } from '../model/states.ts';
import { Limiter } from './admission/limits/limiter.ts';
import { DrainRate } from './drain.ts';
import { JobEntry } from './entry.ts';
import { Fleet } from './fleet.ts';
import { Leases } from './leases.ts';
import { AdmissionOrder } from './order.ts';
import { Pools } from './pools/pools.ts';
import { IndexedHeap } from './queue/heap.ts';
import { Roster } from './roster.ts';
import type { Demand } from './scheduling/demand.ts';
import { Catalog, RecentTable, Table, type Tables, Workers } from './tables.ts';
import { nextWake } from './wake.ts';

const TIMER_PLACE = {
  get: (entry: JobEntry) => entry.timerPos,
  set: (entry: JobEntry, position: number) => {
    entry.timerPos = position;
  },
};

export interface StateSettings {
  /** How long a kill may stay unconfirmed before the job goes on without it. */
  readonly cancelDeadlineMs: number;
  readonly failureCacheSize: number;
}

export class State {
  /** The sequence of the last applied change. */
  seq = 0;
  brain: BrainRecord | undefined;
  readonly jobs = new Map<string, JobEntry>();
  /** Jobs that hold an open attempt, by token. */
  readonly open = new Map<string, JobEntry>();
  readonly failures = new Map<string, FailureRecord>();
  readonly leases = new Leases();
  readonly catalog = new Catalog();
  readonly workers = new Workers();
  readonly sessions = new RecentTable<SessionRecord>();
  readonly tables: Tables = {
    model: this.catalog,
    worker: this.workers,
    session: this.sessions,
    pool: new Table(),
    demand: new Table(),
    limits: new Table(),
    spent: new Table(),
  };
  /** What callers may use; not persisted, but for what was set at run time. */
  readonly limiter = new Limiter();
  /** When jobs come, by model. */
  readonly demands = new Map<string, Demand>();
  readonly fleet = new Fleet();
  readonly pools = new Pools();
  readonly roster = new Roster();
  readonly timers = new IndexedHeap<JobEntry>((a, b) => a.wakeAt < b.wakeAt, TIMER_PLACE);
  /** Jobs that have ended and wait for the history to take them over. */
  readonly ended = new Set<JobEntry>();
  readonly counts: Record<JobState, number> = {
    queued: 0,
    claimed: 0,
    running: 0,
    stale: 0,
    failed: 0,
    dead: 0,
    succeeded: 0,
    cancelled: 0,
  };
  /** The disk is full: no new work, no new starts. */
  full = false;
  /** Shutting down: nothing new is started. */
  paused = false;
  readonly drain = new DrainRate();
  /** Jobs dropped to make room since this brain started. */
  dropped = 0;
  /** Payload bytes of the queued jobs. */
  queuedBytes = 0;
  readonly #order = new AdmissionOrder((entry) => this.jobs.get(entry.uid) === entry);
  /** Ready jobs by class, over all lanes. */
  readonly waiting: Record<JobClass, { jobs: number; bytes: number }> = {
    interactive: { jobs: 0, bytes: 0 },
    batch: { jobs: 0, bytes: 0 },
  };
  readonly #settings: StateSettings;

  constructor(settings: StateSettings) {
    this.#settings = settings;
  }

  /** Returns the job that the change is about, if any. */
  apply(change: Change, now: number): JobEntry | undefined {
    this.seq++;
    switch (change.kind) {
      case 'ask':
        return change.after
          ? this.#addJob(new JobEntry(change.id, change.after, FRESH_JOB, this.seq), now)
          : undefined;
      case 'job':
        return change.after ? this.#moveJob(change.id, change.after, now) : undefined;
      case 'attempt':
        return change.after ? this.#moveAttempt(change.id, change.after, now) : undefined;
      case 'failure':
        this.#setFailure(change.id, change.after);
        return undefined;
      case 'brain':
        if (change.after) this.brain = change.after;
        return undefined;
      case 'lease':
        this.leases.set(change.id, change.after);
        return undefined;
      default:
        this.keep(change);
        return undefined;
    }
  }

  sessionOf(tenant: string, session: string): SessionRecord | undefined {
    return this.tables.session.get(scoped(tenant, session));
  }

  /** A record of a kind that belongs to no job, from a change or from a checkpoint. */
  keep({ kind, id, after }: Omit<KeptChange, 'cause'>): void {
    this.tables[kind].set(id, after as never);
  }

  /** Restores a job from a checkpoint: what a change would have built, without a change. */
  restore(entry: JobEntry, now: number): void {
    this.#addJob(entry, now);
  }

  newestFirst(before?: number): Iterable<JobEntry> {
    return this.#order.newestFirst(before);
  }

  restoreFailure(id: string, failure: FailureRecord): void {
    this.#setFailure(id, failure);
  }

  /** Takes an ended job out of memory: the history has it. */
  forget(entry: JobEntry): void {
    this.jobs.delete(entry.uid);
    this.ended.delete(entry);
    this.counts[entry.rec.state]--;
  }

  /** Puts a job where its records say that it belongs: into its lane, or parked, and on the right timer. */
  settle(entry: JobEntry, now: number): void {
    this.#settleQueue(entry, now);
    const wakeAt = nextWake(entry, now, this.#settings.cancelDeadlineMs);
    if (wakeAt === entry.wakeAt) return;
    entry.wakeAt = wakeAt;
    if (wakeAt === Number.POSITIVE_INFINITY) this.timers.remove(entry);
    else if (this.timers.has(entry)) this.timers.update(entry);
    else this.timers.push(entry);
  }

  #addJob(entry: JobEntry, now: number): JobEntry {
    // An id may come back: redriven after it left memory, or chosen again after its purge.
    const former = this.jobs.get(entry.uid);
    if (former) this.forget(former);
    this.jobs.set(entry.uid, entry);
    this.#order.add(entry, this.jobs.size);
    this.counts[entry.rec.state]++;
    if (entry.rec.state === 'queued') this.queuedBytes += entry.ask.payloadBytes;
    if (entry.open) this.#openAttempt(entry, entry.open, tokenOf(entry.uid, entry.open.n));
    this.#enrol(entry, now);
    this.settle(entry, now);
    return entry;
  }

  #enrol(entry: JobEntry, now: number): void {
    const isLive = !isTerminal(entry.rec.state);
    if (isLive) this.roster.add(entry);
    else if (!entry.open) this.ended.add(entry);
    if (!isLive && !entry.open) return;
    const displaced = this.roster.joinSession(entry);
    if (displaced) this.settle(displaced, now);
  }

  #moveJob(uid: string, after: JobRecord, now: number): JobEntry | undefined {
    const entry = this.jobs.get(uid);
    if (!entry) return undefined;
    const before = entry.rec;
    entry.rec = after;
    entry.seq = this.seq;
    if (before.state !== after.state) this.#countMove(entry, before.state, after.state);
    const wasLive = !isTerminal(before.state);
    const isLive = !isTerminal(after.state);
    if (wasLive && !isLive) {
      this.settle(entry, now);
      this.roster.remove(entry);
      this.#setEnded(entry, now);
      return entry;
    }
    if (!wasLive && isLive) {
      this.#enrol(entry, now);
      this.ended.delete(entry);
    }
    this.settle(entry, now);
    return entry;
  }

  #countMove(entry: JobEntry, from: JobState, to: JobState): void {
    this.counts[from]--;
    this.counts[to]++;
    if (from === 'queued') this.queuedBytes -= entry.ask.payloadBytes;
    if (to === 'queued') this.queuedBytes += entry.ask.payloadBytes;
  }

  #moveAttempt(token: string, after: AttemptRecord, now: number): JobEntry | undefined {
    const entry = this.jobs.get(after.job);
    if (!entry) return undefined;
    entry.seq = this.seq;
    if (isOpen(after.state)) {
      if (entry.open) entry.open = after;
      else this.#openAttempt(entry, after, token);
    } else if (entry.open?.n === after.n) {
      this.open.delete(token);
      this.fleet.vacate(after.backend, now, after.at, entry.ask.class);
      entry.open = undefined;
      entry.token = '';
      remember(entry, after);
      if (isTerminal(entry.rec.state)) this.#setEnded(entry, now);
    } else if (!entry.open) remember(entry, after);
    this.settle(entry, now);
    return entry;
  }

  #openAttempt(entry: JobEntry, attempt: AttemptRecord, token: string): void {
    entry.open = attempt;
    entry.token = token;
    this.open.set(token, entry);
    this.fleet.occupy(attempt.backend, attempt.at, entry.ask.class);
  }

  /** An ended job whose attempt still holds its slot keeps its session too, and stays until both are free. */
  #setEnded(entry: JobEntry, now: number): void {
    if (entry.open) return;
    this.ended.add(entry);
    const next = this.roster.leaveSession(entry);
    if (next) this.settle(next, now);
  }

  #setFailure(id: string, after: FailureRecord | null): void {
    this.failures.delete(id);
    if (!after) return;
    this.failures.set(id, after);
    if (this.failures.size <= this.#settings.failureCacheSize) return;
    const oldest = this.failures.keys().next().value;
    if (oldest !== undefined) this.failures.delete(oldest);
  }

  #settleQueue(entry: JobEntry, now: number): void {
    const { rec } = entry;
    if (rec.state !== 'queued') {
      entry.parked = undefined;
      this.#leaveLane(entry);
      return;
    }
    if (entry.waitsUntil > now) entry.parked = 'not_before';
    else if (!this.roster.mayRun(entry)) entry.parked = 'session';
    else entry.parked = undefined;
    if (entry.parked) this.#leaveLane(entry);
    else if (entry.queuePos < 0) this.#enterLane(entry, Math.max(entry.waitsUntil, entry.ask.createdAt));
  }

  #enterLane(entry: JobEntry, readyAt: number): void {
    const { ask } = entry;
    entry.lane ??= this.fleet.laneOf(ask);
    entry.readyAt = readyAt;
    entry.lane.queueOf(ask.class).add(entry);
    this.#countWaiting(entry, 1);
    this.fleet.noteLane(entry.lane);
  }

  #leaveLane(entry: JobEntry): void {
    const { lane } = entry;
    if (!lane) return;
    // A picked job has left the queue of its lane already.
    if (entry.queuePos >= 0) lane.queueOf(entry.ask.class).remove(entry);
    entry.lane = undefined;
    this.#countWaiting(entry, -1);
    this.fleet.noteLane(lane);
  }

  #countWaiting(entry: JobEntry, by: 1 | -1): void {
    const waiting = this.waiting[entry.ask.class];
    waiting.jobs += by;
    waiting.bytes += by * entry.ask.payloadBytes;
  }
}

function remember(entry: JobEntry, attempt: AttemptRecord): void {
  if (!entry.past) entry.past = [attempt];
  else if (entry.past.push(attempt) > PAST_ATTEMPTS) entry.past.shift();
}
