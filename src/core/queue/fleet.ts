/** The backends with their lanes. Used slots follow from the open attempts alone; all else was declared to this brain. */

import { isCpu } from '../../model/policy.ts';
import type { BlockReason } from '../../model/reasons.ts';
import type { JobClass } from '../../model/records.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { BreakerPolicy } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { Breaker } from './breaker.ts';
import { fits, noteFormer } from './fits.ts';
import { type HeldLane, LaneQueue, laneKey, type NeedSource, needOf } from './lane.ts';
import { Running } from './running.ts';

/** A lane with the backends that can run its jobs. Only the fleet writes `backends` and `freeBackends`. */
export class Lane extends LaneQueue {
  readonly backends: BackendEntry[] = [];
  /** Names of the backends that had the model of this lane and no longer have it. */
  readonly formerBackends = new Set<string>();
  /** The number of `backends` that can take a job now. */
  freeBackends = 0;
  /** The `order` of the backend that last got a job of this lane, for round-robin. */
  lastOrder: number | undefined;
  /** A text for callers: what the jobs of this lane wait for, or why no worker is started for them; set by workers/plan.ts. */
  waitsFor: string | undefined;
  /** Why the next job could not start: it is looked at again when something of this has changed. */
  held: HeldLane | undefined;
  /** The jobs of this lane that are here by a route. */
  routed: Set<JobEntry> | undefined;
  /** Why no backend can be used, when the jobs of routes were last sent elsewhere for it. */
  leftFor: string | undefined;

  addRouted(entry: JobEntry): this {
    this.routed ??= new Set();
    this.routed.add(entry);
    return this;
  }
}

/** The lane in which a job waits. The cast is safe: Queue only ever stores a Lane there. */
export const laneOf = ({ lane }: JobEntry): Lane | undefined => lane as Lane | undefined;

export class BackendEntry {
  info: BackendInfo;
  /** The number of slots in use. */
  used = 0;
  /** The most slots that a limit lets it use. */
  slotLimit = Number.POSITIVE_INFINITY;
  /** The rank of this backend in the order in which backends were added. */
  readonly order: number;
  /** The start times of the running jobs, where known. */
  running = new Running();
  /** The backend can be reached. */
  up = true;
  /** The backend takes no new jobs: a worker that drains or stops, or whose pool does not answer. */
  closed = false;
  /** The backend is at another node: it cannot be called from here. */
  away = false;
  /** Its provider has billed more than its bound: it gets no job until an operator resumes it. */
  paused = false;
  /** Since when the backend has an outage (`info.outage`); undefined without one. */
  outageSince: number | undefined;
  /** The backend has answered `busy`, or its provider turned a job away: nothing is offered before this instant. 0 without a block. */
  blockedUntil = 0;
  /** Why it is blocked, if the backend has said it, or its breaker has paused it. */
  blockedFor: BlockReason | undefined;
  /** How many jobs its provider has turned away since one was run. */
  turnedAway = 0;
  /** Pauses the backend when its provider fails again and again. */
  readonly breaker = new Breaker();
  /** When the backend last got a job, counted in jobs given to any backend: among equals the lowest is chosen. */
  lastPick = 0;
  /** The number of jobs that the backend was given. */
  uses = 0;
  /** When a job last ended on the backend: it has been idle since then if `used` is 0. */
  idleSince = 0;
  /** Measured tokens per second of one job. */
  decodeSpeed: number | undefined;
  /** The backend can take a job now. */
  free = false;
  readonly lanes: Lane[] = [];

  constructor(info: BackendInfo, order: number) {
    this.info = info;
    this.order = order;
  }
}

/** The most slots that it may use now. */
export const usableSlots = ({ info, slotLimit, breaker }: BackendEntry): number =>
  Math.min(info.slots, slotLimit, breaker.isOnTrial ? 1 : Number.POSITIVE_INFINITY);

/** Hears of every change of a backend that may matter to jobs that wait for it. */
export interface FleetFollower {
  note(backend: BackendEntry): void;
  noteRemoved(backend: BackendEntry): void;
}

const NO_FOLLOWER: FleetFollower = { note: () => undefined, noteRemoved: () => undefined };

/** Empty lanes are kept for their measurements until there are this many lanes. */
const MAX_LANES = 1000;

export class Fleet {
  readonly backends = new Map<string, BackendEntry>();
  readonly lanes = new Map<string, Lane>();
  /** Lanes with a ready job and a free backend. */
  readonly runnable = new Set<Lane>();
  /** Lanes with a ready job and no free backend. */
  readonly unserved = new Set<Lane>();
  keepsCpu = false;
  /** The lanes that have become unserved since workers/plan.ts last ran. */
  readonly newlyUnserved = new Set<Lane>();
  /** Names of closed backends whose last job has ended. */
  readonly emptied = new Set<string>();
  /** Lanes without a ready job: those that may be dropped, found without a walk over all lanes. */
  readonly #empty = new Set<Lane>();
  /** Used slots by backend name. Attempts can be open on a backend that is not registered. */
  readonly #used = new Map<string, number>();
  readonly #running = new Map<string, Running>();
  readonly #blocked = new Set<BackendEntry>();
  readonly #follower: FleetFollower;
  #picks = 0;
  #orders = 0;

  constructor(follower: FleetFollower = NO_FOLLOWER) {
    this.#follower = follower;
  }

  /** The lane of the jobs with this need; created, and linked to the backends that fit, if there is none. */
  findOrCreateLane(source: NeedSource): Lane {
    const key = laneKey(source);
    let lane = this.lanes.get(key);
    if (!lane) {
      if (this.lanes.size >= MAX_LANES) this.#dropEmptyLanes();
      lane = new Lane(key, needOf(source));
      this.lanes.set(key, lane);
      this.#empty.add(lane);
      for (const backend of this.backends.values()) {
        this.#link(lane, backend);
        noteFormer(lane, backend.info);
      }
    }
    return lane;
  }

  /** Adds a backend or replaces its declaration. */
  put(info: BackendInfo): void {
    const known = this.backends.get(info.name);
    const backend = known ?? new BackendEntry(info, ++this.#orders);
    if (known) this.#unlink(known);
    backend.info = info;
    backend.up = true;
    // A provider that wants no jobs for a while, or fails, does not change because its executor declares itself again.
    if (backend.turnedAway === 0 && !backend.breaker.isOnTrial) this.#endBlock(backend);
    backend.used = this.#used.get(info.name) ?? 0;
    backend.running = this.#running.get(info.name) ?? backend.running;
    this.backends.set(info.name, backend);
    for (const lane of this.lanes.values()) {
      this.#link(lane, backend);
      noteFormer(lane, info);
    }
    this.#refresh(backend);
  }

  /** A backend that cannot be reached gets no new jobs; its open attempts stay on it. */
  setUp(name: string, up: boolean): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.up = up;
    this.#refresh(backend);
  }

  setClosed(name: string, closed: boolean): void {
    const backend = this.backends.get(name);
    if (!backend || backend.closed === closed) return;
    backend.closed = closed;
    this.#refresh(backend);
  }

  /** Sets whether a backend is at another node than the leader. */
  setAway(name: string, away: boolean): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.away = away;
    this.#refresh(backend);
  }

  setPaused(name: string, paused: boolean): void {
    const backend = this.backends.get(name);
    if (!backend || backend.paused === paused) return;
    backend.paused = paused;
    this.#refresh(backend);
  }

  /** Sets whether backends without a GPU are kept for jobs that ask for them. Returns whether that has changed. */
  keepCpu(isKept: boolean): boolean {
    if (this.keepsCpu === isKept) return false;
    this.keepsCpu = isKept;
    for (const backend of this.backends.values()) {
      if (!isCpu(backend.info.labels)) continue;
      this.#unlink(backend);
      for (const lane of this.lanes.values()) this.#link(lane, backend);
      this.#refresh(backend);
    }
    return true;
  }

  /** Sets how many slots a limit lets a backend use; undefined: all. */
  limitSlots(name: string, limit: number | undefined): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.slotLimit = limit ?? Number.POSITIVE_INFINITY;
    this.#refresh(backend);
  }

  isAway(name: string): boolean {
    return this.backends.get(name)?.away ?? false;
  }

  /** An execution has failed by the fault of its provider: failures in a row pause the backend. */
  noteFailure(name: string, policy: BreakerPolicy, now: number): void {
    const backend = this.backends.get(name);
    // Executions that were under way when the pause began say nothing new.
    if (!backend || backend.blockedFor === 'failing') return;
    const pauseMs = backend.breaker.failed(policy);
    if (pauseMs !== undefined) this.block(name, Math.max(backend.blockedUntil, now + pauseMs), 'failing');
  }

  noteSuccess(name: string): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.breaker.succeeded();
    this.#refresh(backend);
  }

  /** Offers the backend no jobs before `until`. */
  block(name: string, until: number, why?: BlockReason): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.blockedUntil = until;
    backend.blockedFor = why;
    this.#blocked.add(backend);
    this.#refresh(backend);
  }

  /** Ends the blocks whose time is over. */
  unblock(now: number): void {
    for (const backend of this.#blocked) {
      if (backend.blockedUntil > now) continue;
      this.#endBlock(backend);
      this.#refresh(backend);
    }
  }

  /** Ends the block of a backend before its time: the backend has said that it takes jobs again. */
  unblockEarly(name: string): void {
    const backend = this.backends.get(name);
    if (!backend || backend.blockedUntil === 0 || backend.blockedFor === 'failing') return;
    this.#endBlock(backend);
    this.#refresh(backend);
  }

  #endBlock(backend: BackendEntry): void {
    this.#blocked.delete(backend);
    backend.blockedUntil = 0;
    backend.blockedFor = undefined;
  }

  /** Brain time was stepped: the rest of every block stays as it was. */
  moveInstants(byMs: number): void {
    for (const backend of this.#blocked) backend.blockedUntil += byMs;
  }

  nextUnblock(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const backend of this.#blocked) next = Math.min(next, backend.blockedUntil);
    return next;
  }

  /** Takes a slot. `at` and `jobClass` are used for estimates only. */
  occupy(name: string, at?: number, jobClass: JobClass = 'batch'): void {
    this.#count(name, 1);
    const backend = this.backends.get(name);
    if (backend) {
      backend.lastPick = ++this.#picks;
      backend.uses++;
    }
    if (at === undefined) return;
    const running = this.#running.get(name) ?? backend?.running ?? new Running();
    this.#running.set(name, running);
    running.enter(jobClass, at);
  }

  /** Frees a slot. `at` and `jobClass` must be those given to `occupy`. */
  vacate(name: string, now = 0, at?: number, jobClass: JobClass = 'batch'): void {
    const backend = this.backends.get(name);
    if (backend) backend.idleSince = now;
    this.#count(name, -1);
    if (at !== undefined) this.#running.get(name)?.leave(jobClass, at);
    if (!this.#used.has(name)) this.#running.delete(name);
  }

  /** Removes a backend that is gone for good. The caller settles its open attempts first. */
  remove(name: string): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    this.#unlink(backend);
    for (const lane of this.lanes.values()) lane.formerBackends.delete(name);
    this.#blocked.delete(backend);
    this.backends.delete(name);
    this.#follower.noteRemoved(backend);
  }

  usedSlots(name: string): number {
    return this.#used.get(name) ?? 0;
  }

  /** Call after the number of ready jobs in a lane has changed. */
  updateLane(lane: Lane): void {
    if (lane.size > 0) this.#empty.delete(lane);
    if (lane.size === 0) {
      this.#empty.add(lane);
      this.runnable.delete(lane);
      this.unserved.delete(lane);
      this.newlyUnserved.delete(lane);
    } else if (lane.freeBackends > 0) {
      this.runnable.add(lane);
      this.unserved.delete(lane);
      this.newlyUnserved.delete(lane);
    } else {
      this.runnable.delete(lane);
      if (this.unserved.has(lane)) return;
      this.unserved.add(lane);
      this.newlyUnserved.add(lane);
    }
  }

  #count(name: string, by: number): void {
    const used = (this.#used.get(name) ?? 0) + by;
    if (used === 0) this.#used.delete(name);
    else this.#used.set(name, used);
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.used = used;
    if (used === 0 && backend.closed) this.emptied.add(name);
    this.#refresh(backend);
  }

  #refresh(backend: BackendEntry): void {
    const free =
      backend.up &&
      !backend.closed &&
      !backend.away &&
      !backend.paused &&
      backend.info.outage === undefined &&
      backend.blockedUntil === 0 &&
      backend.used < usableSlots(backend);
    const isChanged = free !== backend.free;
    backend.free = free;
    this.#follower.note(backend);
    if (!isChanged) return;
    for (const lane of backend.lanes) {
      lane.freeBackends += free ? 1 : -1;
      if (free) lane.held = undefined;
      this.updateLane(lane);
    }
  }

  #link(lane: Lane, backend: BackendEntry): void {
    if (!fits(lane.need, backend.info, this.keepsCpu)) return;
    lane.backends.push(backend);
    backend.lanes.push(lane);
    if (!backend.free) return;
    lane.freeBackends++;
    lane.held = undefined;
  }

  #unlink(backend: BackendEntry): void {
    for (const lane of backend.lanes) {
      lane.backends.splice(lane.backends.indexOf(backend), 1);
      if (backend.free) lane.freeBackends--;
      this.updateLane(lane);
    }
    backend.lanes.length = 0;
    backend.free = false;
  }

  #dropEmptyLanes(): void {
    for (const lane of this.#empty) {
      if (lane.size > 0) continue;
      // A dropped lane is here again if a job left it later; there may be another one of its key by now.
      if (this.lanes.get(lane.key) === lane) this.lanes.delete(lane.key);
      for (const backend of lane.backends) backend.lanes.splice(backend.lanes.indexOf(lane), 1);
      lane.backends.length = 0;
    }
    this.#empty.clear();
  }
}
