/**
 * The backends and what they could run. Slots in use follow from the open attempts alone; everything else here
 * is what backends said of themselves since this brain started, and is not persisted.
 */
import type { JobClass } from '../../model/records.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { LaneQueue, laneKey, type Need, type NeedSource, needOf } from './lane.ts';
import { Running } from './running.ts';

export function fits(need: Need, info: BackendInfo): boolean {
  if (need.kind !== undefined && need.kind !== info.kind) return false;
  if (info.types !== undefined && !info.types.includes(need.type)) return false;
  // A worker has one model, and is there for those who ask for that one.
  if (need.model === undefined ? info.home !== undefined : !hasModel(need, info)) return false;
  if (need.contextTokens !== undefined && need.contextTokens > (info.contextLength ?? Infinity)) return false;
  if (!need.labels) return true;
  return Object.entries(need.labels).every(([name, value]) => info.labels[name] === value);
}

function hasModel({ model, modelRef }: Need, { models }: BackendInfo): boolean {
  if (!models) return false;
  return (modelRef !== undefined && models.includes(modelRef)) || models.includes(model as string);
}

/** A lane with the backends that can run its jobs. Only the fleet writes `backends` and `freeBackends`. */
export class Lane extends LaneQueue {
  readonly backends: BackendEntry[] = [];
  /** How many of them can take a job now. */
  freeBackends = 0;
  /** The `order` of the backend that last had a turn here. */
  lastOrder: number | undefined;
  /** Why no worker is started for it, where that was looked into. */
  waitsFor: string | undefined;
}

/** The lane in which a job waits. Only lanes of a fleet are ever put there. */
export const laneOf = ({ lane }: JobEntry): Lane | undefined => lane as Lane | undefined;

export class BackendEntry {
  info: BackendInfo;
  used = 0;
  /** Its fixed place among all. */
  readonly order: number;
  /** Since when its slots are in use, as far as that is known. */
  running = new Running();
  up = true;
  /** It takes nothing new, whether it answers or not: a worker that is to go, or whose pool is silent. */
  closed = false;
  /** Its executions are at another node: nothing can be asked of it from here. */
  away = false;
  /** Nothing is offered before this instant: it said that it was busy. */
  blockedUntil = 0;
  /** Order of the last job given, for turns among equals. */
  lastPick = 0;
  /** How often a job was given, and when it last had nothing to do. */
  uses = 0;
  idleSince = 0;
  /** Tokens a second of one job, as measured. */
  decodeSpeed: number | undefined;
  free = false;
  readonly lanes: Lane[] = [];

  constructor(info: BackendInfo, order: number) {
    this.info = info;
    this.order = order;
  }
}

/** Empty lanes are kept for their measurements up to this many. */
const LANES_KEPT = 1000;

export class Fleet {
  readonly backends = new Map<string, BackendEntry>();
  readonly lanes = new Map<string, Lane>();
  /** Lanes with a ready job and a backend that could take it now. */
  readonly runnable = new Set<Lane>();
  /** Lanes with a ready job and nobody free to take it. */
  readonly unserved = new Set<Lane>();
  /** Those of them that have come since somebody last looked. */
  readonly newlyUnserved = new Set<Lane>();
  /** Backends that take nothing new and have come to the end of what they had. */
  readonly emptied = new Set<string>();
  /** Slots in use by backend name, known or not: attempts outlive the registration of their backend. */
  readonly #used = new Map<string, number>();
  readonly #running = new Map<string, Running>();
  readonly #blocked = new Set<BackendEntry>();
  #picks = 0;
  #orders = 0;

  laneOf(source: NeedSource): Lane {
    const key = laneKey(source);
    let lane = this.lanes.get(key);
    if (!lane) {
      if (this.lanes.size >= LANES_KEPT) this.#dropEmptyLanes();
      lane = new Lane(key, needOf(source));
      this.lanes.set(key, lane);
      for (const backend of this.backends.values()) this.#link(lane, backend);
    }
    return lane;
  }

  /** Adds a backend or replaces what is known of it. */
  put(info: BackendInfo): void {
    const known = this.backends.get(info.name);
    const backend = known ?? new BackendEntry(info, ++this.#orders);
    if (known) this.#unlink(known);
    backend.info = info;
    backend.up = true;
    backend.blockedUntil = 0;
    this.#blocked.delete(backend);
    backend.used = this.#used.get(info.name) ?? 0;
    backend.running = this.#running.get(info.name) ?? backend.running;
    this.backends.set(info.name, backend);
    for (const lane of this.lanes.values()) this.#link(lane, backend);
    this.#refresh(backend);
  }

  /** A backend that cannot be reached gets nothing new; its attempts stay its own. */
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

  /** Whether its executions are at another node than the one that leads. */
  setAway(name: string, away: boolean): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.away = away;
    this.#refresh(backend);
  }

  isAway(name: string): boolean {
    return this.backends.get(name)?.away ?? false;
  }

  block(name: string, until: number): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    backend.blockedUntil = until;
    this.#blocked.add(backend);
    this.#refresh(backend);
  }

  /** Frees the backends whose block has ended. */
  unblock(now: number): void {
    for (const backend of this.#blocked) {
      if (backend.blockedUntil > now) continue;
      this.#blocked.delete(backend);
      backend.blockedUntil = 0;
      this.#refresh(backend);
    }
  }

  nextUnblock(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const backend of this.#blocked) next = Math.min(next, backend.blockedUntil);
    return next;
  }

  /** `at` and class of what takes the slot are for estimates. */
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

  /** With the same `at` and class as when the slot was taken. */
  vacate(name: string, now = 0, at?: number, jobClass: JobClass = 'batch'): void {
    const backend = this.backends.get(name);
    if (backend) backend.idleSince = now;
    this.#count(name, -1);
    if (at !== undefined) this.#running.get(name)?.leave(jobClass, at);
    if (!this.#used.has(name)) this.#running.delete(name);
  }

  /** Forgets a backend that is gone for good; what was open on it must be settled before. */
  remove(name: string): void {
    const backend = this.backends.get(name);
    if (!backend) return;
    this.#unlink(backend);
    this.#blocked.delete(backend);
    this.backends.delete(name);
  }

  usedSlots(name: string): number {
    return this.#used.get(name) ?? 0;
  }

  /** Call after the number of ready jobs in a lane has changed. */
  noteLane(lane: Lane): void {
    if (lane.size === 0) {
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
      backend.blockedUntil === 0 &&
      backend.used < backend.info.slots;
    if (free === backend.free) return;
    backend.free = free;
    for (const lane of backend.lanes) {
      lane.freeBackends += free ? 1 : -1;
      this.noteLane(lane);
    }
  }

  #link(lane: Lane, backend: BackendEntry): void {
    if (!fits(lane.need, backend.info)) return;
    lane.backends.push(backend);
    backend.lanes.push(lane);
    if (backend.free) lane.freeBackends++;
  }

  #unlink(backend: BackendEntry): void {
    for (const lane of backend.lanes) {
      lane.backends.splice(lane.backends.indexOf(backend), 1);
      if (backend.free) lane.freeBackends--;
      this.noteLane(lane);
    }
    backend.lanes.length = 0;
    backend.free = false;
  }

  #dropEmptyLanes(): void {
    for (const lane of this.lanes.values()) {
      if (lane.size > 0) continue;
      this.lanes.delete(lane.key);
      for (const backend of lane.backends) backend.lanes.splice(backend.lanes.indexOf(lane), 1);
    }
  }
}
