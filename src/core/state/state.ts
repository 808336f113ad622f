/**
 * The records in memory with their indexes. The state notifies the queue and does not hold it (docs/decisions/0015).
 *
 * S1  apply(change) is the only way in which a record changes, and the indexes follow from the records: a replay of the
 *     same changes gives the same indexes. Not derived from records: `limiter`, `unreserved`, the order in which failures were used, `pools`, `gates`, `full`, `paused`, the
 *     heartbeats of leases, and the fields of `JobMemory` that other folders write.
 * S2  A job is ready for the follower exactly while it is queued, neither it nor a job above it is paused (P2 of
 *     pauses.ts), its `waitsUntil` has passed, no job that it waits for holds it back, and its session lets it run.
 * S3  A key belongs to at most one job that is not terminal.
 */

import { IndexedHeap } from '../../kit/indexed-heap.ts';
import { FRESH_JOB } from '../../model/moves.ts';
import type { AttemptRecord, JobRecord } from '../../model/records.ts';
import {
  type BrainRecord,
  type Change,
  type FailureRecord,
  type SmallChange,
  scoped,
  tokenOf,
} from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { isOpen, isTerminal, type JobState, usesSlot } from '../../model/states.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { Governance } from '../governance/governance.ts';
import { Limiter } from '../limits/limiter.ts';
import type { StateSettings } from '../settings.ts';
import { AdmissionOrder } from './admission-order.ts';
import { BatchTable } from './batch-table.ts';
import { ClosedGates } from './closed-gates.ts';
import { ConsumerTable, PulledAttempts } from './consumers.ts';
import { awaitedIds, EndWaiters, endOfEntry } from './end-waiters.ts';
import { NO_FOLLOWER, type StateFollower } from './follower.ts';
import { JobEntry, type Parked, type WritableRecords, withAttempt } from './job-entry.ts';
import { Leases } from './leases.ts';
import { Pauses } from './pauses.ts';
import { Pools } from './pools.ts';
import { QueuedByTenant } from './queued-by-tenant.ts';
import { RecentIds } from './recent-ids.ts';
import { Roster } from './roster.ts';
import { Catalog, plainTables, SessionTable, type Tables, WaitStateTable, WorkerTable } from './tables.ts';
import { nextWake } from './wake.ts';

const TIMER_POSITION = {
  get: (entry: JobEntry) => entry.timerPos,
  set: (entry: JobEntry, position: number) => {
    entry.timerPos = position;
  },
};

export class State {
  /** The sequence number of the last applied change. */
  seq = 0;
  brain: BrainRecord | undefined;
  readonly jobs = new Map<string, JobEntry>();
  /** Jobs that hold an open attempt, by token. */
  readonly open = new Map<string, JobEntry>();
  readonly failures = new Map<string, FailureRecord>();
  readonly leases = new Leases();
  readonly catalog = new Catalog();
  readonly workers = new WorkerTable();
  readonly sessions = new SessionTable();
  readonly #isHere = (entry: JobEntry): boolean => this.jobs.get(entry.uid) === entry;
  readonly batches = new BatchTable(this.#isHere);
  readonly waitStates = new WaitStateTable();
  readonly consumers = new ConsumerTable();
  readonly pulled = new PulledAttempts();
  readonly tables: Tables = {
    ...plainTables(),
    model: this.catalog,
    worker: this.workers,
    session: this.sessions,
    batch: this.batches,
    wait_state: this.waitStates,
    consumer: this.consumers,
  };
  /** Written by admission/. Not persisted itself; limits set at run time and spent budgets are records. */
  readonly limiter = new Limiter();
  /** Where `reserveLive` of admission/ goes on: the jobs from here on may lack a reservation. Undefined: from the first. */
  unreserved: IterableIterator<JobEntry> | undefined;
  /** The reports of pool managers. Not persisted; written by workers/. */
  readonly pools = new Pools();
  readonly gates = new ClosedGates();
  readonly roster = new Roster();
  readonly pauses = new Pauses();
  /** Which jobs wait for which. Released by attempts/, some in each step. */
  readonly waiters = new EndWaiters();
  readonly timers = new IndexedHeap<JobEntry>((a, b) => a.wakeAt < b.wakeAt, TIMER_POSITION);
  /** Ended jobs that stay in memory until they are in the history. */
  readonly ended = new Set<JobEntry>();
  readonly counts: Record<JobState, number> = {
    queued: 0,
    claimed: 0,
    running: 0,
    waiting: 0,
    stale: 0,
    failed: 0,
    dead: 0,
    succeeded: 0,
    cancelled: 0,
  };
  /** The disk is full: new jobs are refused and none is started. */
  full = false;
  /** The process shuts down: no job is started. */
  paused = false;
  /** How far brain time is ahead of a wall clock that is in doubt; `not_before` of callers is judged by the earlier one. */
  aheadMs = 0;
  /** Payload bytes of the queued jobs. */
  queuedBytes = 0;
  readonly queuedByTenant = new QueuedByTenant();
  readonly waitingByTenant = new QueuedByTenant();
  readonly #recentFailures = new RecentIds();
  /** All jobs in memory in order of admission. */
  readonly admitted = new AdmissionOrder(this.#isHere);
  readonly #settings: StateSettings;
  readonly governance: Governance;
  readonly #follower: StateFollower;

  constructor(settings: StateSettings, follower: StateFollower = NO_FOLLOWER) {
    this.#settings = settings;
    this.#follower = follower;
    this.governance = new Governance(settings.governance, this.tables.governance);
  }

  /** Applies one change. Returns the job that it belongs to, if any. */
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
      case 'session':
        this.#setSession(change, now);
        return undefined;
      default:
        this.keep(change);
        return undefined;
    }
  }

  sessionOf(tenant: string, session: string): SessionRecord | undefined {
    return this.tables.session.get(scoped(tenant, session));
  }

  /** Stores a record that belongs to no job, from a change or from a checkpoint. */
  keep({ kind, id, after }: Omit<SmallChange, 'cause'>): void {
    this.tables[kind].set(id, after as never);
  }

  /** Adds a job from a checkpoint, with the same indexes as if its changes had been applied. */
  restore(entry: JobEntry, now: number): void {
    this.#addJob(entry, now);
  }

  /** The jobs in memory in order of admission: all of them, or those of a batch. */
  orderOf(tenant: string, batch: string | undefined): AdmissionOrder | undefined {
    return batch === undefined ? this.admitted : this.batches.jobs(tenant, batch)?.order;
  }

  /** Adds a failure from a checkpoint. The number of failures that are kept may be smaller by now. */
  restoreFailure(id: string, failure: FailureRecord): void {
    this.#setFailure(id, failure);
    const displaced = this.displacedFailure();
    if (displaced !== undefined) this.#setFailure(displaced, null);
  }

  /** Marks a failure as used: of too many, the one that was not used for the longest time gives way. Not persisted. */
  useFailure(id: string): void {
    this.#recentFailures.use(tenantOf(id), id);
  }

  /** The failure that gives way; undefined unless there are more than are kept. */
  displacedFailure(): string | undefined {
    const isTooMany = this.failures.size > this.#settings.failureCacheSize;
    return isTooMany ? this.#recentFailures.oldestOfLargest() : undefined;
  }

  /** Removes an ended job from memory: it is in the history. */
  forget(entry: JobEntry): void {
    this.jobs.delete(entry.uid);
    this.ended.delete(entry);
    this.counts[entry.job.state]--;
    this.batches.count(entry, entry.job.state, undefined);
  }

  /** Puts a job where its records say it belongs: into its lane or parked, and on its timer. */
  settle(entry: JobEntry, now: number): void {
    this.#settleQueue(entry, now);
    const wakeAt = nextWake(entry, now, this.#settings.cancelDeadlineMs, this.aheadMs);
    if (wakeAt === entry.wakeAt) return;
    entry.wakeAt = wakeAt;
    if (wakeAt === Number.POSITIVE_INFINITY) this.timers.remove(entry);
    else if (this.timers.has(entry)) this.timers.update(entry);
    else this.timers.push(entry);
  }

  #addJob(entry: JobEntry, now: number): JobEntry {
    // An id can occur again: redriven after it left memory, or chosen by a caller again after its purge.
    const former = this.jobs.get(entry.uid);
    if (former) {
      this.waiters.remove(former, awaitedIds(former.ask, former.job));
      this.forget(former);
    }
    this.jobs.set(entry.uid, entry);
    this.admitted.add(entry, this.jobs.size);
    this.counts[entry.job.state]++;
    if (entry.job.state === 'queued') this.#countQueued(entry, 1);
    if (entry.job.state === 'waiting') this.waitingByTenant.count(entry.ask, 1);
    if (entry.open) {
      this.#openAttempt(entry, entry.open, tokenOf(entry.uid, entry.open.n), now);
      this.pulled.changed(entry, entry.token, undefined, entry.open);
      this.#noteSlot(entry, entry.open, false, now);
    }
    this.batches.count(entry, undefined, entry.job.state);
    this.pauses.note(entry, this.roster.descendants(entry.uid));
    this.#noteWaiting(entry, undefined);
    this.#enrol(entry, now);
    this.settle(entry, now);
    return entry;
  }

  /** Keeps the index of jobs that wait for others, and of those that they wait for. */
  #noteWaiting(entry: JobEntry, before: JobRecord | undefined): void {
    const former = before && awaitedIds(entry.ask, before);
    const ids = awaitedIds(entry.ask, entry.job);
    if (ids !== former) {
      if (former && former.length > 0) this.waiters.remove(entry, former);
      if (ids.length > 0) this.waiters.add(entry, (uid) => endOfEntry(this.jobs.get(uid)));
    }
    this.waiters.moved(entry.uid, endOfEntry(entry));
  }

  #enrol(entry: JobEntry, now: number): void {
    const isLive = !isTerminal(entry.job.state);
    if (isLive) this.roster.add(entry);
    else if (!entry.open) this.ended.add(entry);
    if (!isLive && !entry.open) return;
    const displaced = this.roster.joinSession(entry);
    if (displaced) this.settle(displaced, now);
  }

  #moveJob(uid: string, after: JobRecord, now: number): JobEntry | undefined {
    const entry = this.jobs.get(uid);
    if (!entry) return undefined;
    const before = entry.job;
    const records: WritableRecords = entry;
    records.job = after;
    records.seq = this.seq;
    if (before.state !== after.state) this.#countMove(entry, before.state, after.state);
    this.#noteWaiting(entry, before);
    if (before.paused || after.paused) this.pauses.note(entry, this.roster.descendants(uid));
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
    if (from === 'queued') this.#countQueued(entry, -1);
    if (to === 'queued') this.#countQueued(entry, 1);
    if (from === 'waiting') this.waitingByTenant.count(entry.ask, -1);
    if (to === 'waiting') this.waitingByTenant.count(entry.ask, 1);
    this.batches.count(entry, from, to);
  }

  #countQueued({ ask }: JobEntry, by: 1 | -1): void {
    this.queuedBytes += by * ask.payloadBytes;
    this.queuedByTenant.count(ask, by);
    this.gates.count(ask, by);
  }

  #moveAttempt(token: string, after: AttemptRecord, now: number): JobEntry | undefined {
    const entry = this.jobs.get(after.job);
    if (!entry) return undefined;
    const records: WritableRecords = entry;
    records.seq = this.seq;
    const usedSlot = usesSlot(entry.open);
    const before = entry.open?.n === after.n ? entry.open : undefined;
    if (isOpen(after.state)) {
      if (entry.open) records.open = after;
      else this.#openAttempt(entry, after, token, now);
      this.#noteSlot(entry, after, usedSlot, now);
    } else if (entry.open?.n === after.n) {
      this.open.delete(token);
      records.open = undefined;
      records.token = '';
      records.past = withAttempt(entry, after);
      this.#noteSlot(entry, after, usedSlot, now);
      this.#follower.attemptOver(entry, after, now);
      if (isTerminal(entry.job.state)) this.#setEnded(entry, now);
    } else if (!entry.open) records.past = withAttempt(entry, after);
    this.pulled.changed(entry, token, before, isOpen(after.state) ? after : undefined);
    this.settle(entry, now);
    return entry;
  }

  #openAttempt(entry: JobEntry, attempt: AttemptRecord, token: string, now: number): void {
    const records: WritableRecords = entry;
    records.open = attempt;
    records.token = token;
    this.open.set(token, entry);
    this.#follower.attemptBegun(entry, attempt, now);
  }

  /** Tells the follower where an attempt begins or ceases to use a slot. */
  #noteSlot(entry: JobEntry, attempt: AttemptRecord, usedSlot: boolean, now: number): void {
    const usesOne = usesSlot(attempt);
    if (usesOne && !usedSlot) this.#follower.attemptOpened(entry, attempt);
    if (!usesOne && usedSlot) this.#follower.attemptClosed(entry, attempt, now);
  }

  /** An ended job with an open attempt keeps its place in its session, and stays in memory, until that attempt closes. */
  #setEnded(entry: JobEntry, now: number): void {
    if (entry.open) return;
    this.ended.add(entry);
    const next = this.roster.leaveSession(entry);
    if (next) this.settle(next, now);
  }

  /** The next job of the session was made ready by the end of the one ahead, before this record says what was heard. */
  #setSession(change: Extract<SmallChange, { kind: 'session' }>, now: number): void {
    const before = this.sessions.get(change.id)?.threads;
    this.keep(change);
    const next = change.after?.threads === before ? undefined : this.roster.headOf(change.id);
    if (next?.job.state === 'queued') this.#follower.conversationMoved(next, now);
  }

  #setFailure(id: string, after: FailureRecord | null): void {
    const tenant = tenantOf(id);
    this.failures.delete(id);
    this.#recentFailures.delete(tenant, id);
    if (!after) return;
    this.failures.set(id, after);
    this.#recentFailures.use(tenant, id);
  }

  #settleQueue(entry: JobEntry, now: number): void {
    entry.parked = this.#parkedBy(entry, now);
    if (entry.job.state === 'queued' && !entry.parked)
      this.#follower.ready(entry, Math.max(entry.waitsUntil, entry.ask.createdAt), now);
    else this.#follower.unready(entry);
  }

  #parkedBy(entry: JobEntry, now: number): Parked | undefined {
    if (entry.job.state !== 'queued') return undefined;
    if (this.pauses.holds(entry)) return 'paused';
    if (entry.waits(now, this.aheadMs)) return 'not_before';
    if (entry.waitsFor > 0) return 'after';
    return this.roster.mayRun(entry) ? undefined : 'session';
  }
}

/** The tenant of a key or session that `scoped` has prefixed. */
const tenantOf = (id: string): string => id.slice(0, id.indexOf('~'));

/** The brain's owner and epoch, which every order to an executor carries. */
export const commanderOf = ({ brain }: State): Commander => ({
  owner: brain?.owner ?? '',
  epoch: brain?.epoch ?? 0,
  nonce: brain?.nonce,
});
