/**
 * Jobs that wait for the backend that holds their conversation, although another one is free (docs/decisions/0038).
 *
 * K1  A job is here or in a lane or at a gate, never in two of them.
 * K2  Every job here leaves by one of three ways: its backend takes it, its time is over, or its backend cannot be used
 *     any more, or not before its time is over. The last two send it to its lane, from where it goes to any backend.
 * K3  `#ready` has exactly the lists whose backend is free.
 */
import { IndexedHeap } from '../../kit/indexed-heap.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { BackendEntry, Lane } from './fleet.ts';
import { ahead } from './gate-group.ts';

/** The backend that a job waits for, since it has the job's conversation, and until when. */
export interface Holder {
  readonly backend: BackendEntry;
  readonly until: number;
}

/** Decides whether a job waits for the backend with its conversation; see scheduling/affinity.ts. */
export type HolderOf = (entry: JobEntry, now: number) => Holder | undefined;

/** A job that waits for the backend with its conversation. */
export class StickyWait {
  readonly entry: JobEntry;
  readonly list: StickyList;
  /** From this instant on the job goes to any backend. */
  until: number;
  /** The indexes in the heap of the list and in that of the timers; -1 outside. */
  listPos = -1;
  timerPos = -1;

  constructor(entry: JobEntry, list: StickyList, until: number) {
    this.entry = entry;
    this.list = list;
    this.until = until;
  }
}

const LIST_POSITION = {
  get: (wait: StickyWait) => wait.listPos,
  set: (wait: StickyWait, position: number) => {
    wait.listPos = position;
  },
};
const TIMER_POSITION = {
  get: (wait: StickyWait) => wait.timerPos,
  set: (wait: StickyWait, position: number) => {
    wait.timerPos = position;
  },
};

/** The jobs that wait for one backend, in the order in which they start there. */
export class StickyList {
  readonly backend: BackendEntry;
  readonly jobs = new IndexedHeap<StickyWait>((a, b) => ahead(a.entry, b.entry), LIST_POSITION);
  /** The version of the gates when its first job could not start although the backend was free. */
  heldAt: number | undefined;
  /** Its backend was removed. */
  isGone = false;
  /** The declaration of the backend that all its jobs are known to fit. */
  #info: BackendInfo;

  constructor(backend: BackendEntry) {
    this.backend = backend;
    this.#info = backend.info;
  }

  /** True where some jobs of the list may have to leave it: `lost` says which. */
  get mayHaveLost(): boolean {
    return !isUsable(this.backend) || this.backend.blockedUntil > 0 || this.backend.info !== this.#info;
  }

  /** The jobs that cannot start on the backend, or not within their time. */
  lost(laneFor: LaneFor): readonly StickyWait[] {
    const waits = this.jobs.items();
    const { backend } = this;
    const { blockedUntil, info } = backend;
    if (this.isGone || !isUsable(backend)) return [...waits];
    const isRedeclared = info !== this.#info;
    const lost = waits.filter(
      ({ entry, until }) => until < blockedUntil || (isRedeclared && !backend.lanes.includes(laneFor(entry))),
    );
    if (lost.length === 0) this.#info = info;
    return lost;
  }
}

/** Finds the lane of a job that is in none. */
type LaneFor = (entry: JobEntry) => Lane;

/** The backend is there and takes jobs, now or after a while. */
export const isUsable = ({ up, closed, away, paused, info }: BackendEntry): boolean =>
  up && !closed && !away && !paused && info.outage === undefined;

export class StickyLists {
  readonly #waits = new Map<JobEntry, StickyWait>();
  readonly #lists = new Map<string, StickyList>();
  readonly #timers = new IndexedHeap<StickyWait>((a, b) => a.until < b.until, TIMER_POSITION);
  /** Lists whose backend is free. */
  readonly #ready = new Set<StickyList>();
  /** Lists whose backend may not be usable any more, or not for a while. */
  readonly #lost = new Set<StickyList>();
  /**
   * The instant at which a job first waited here, for its present try: coming back does not start its time anew, nor does
   * an attempt that used up no try because its backend was busy or turned it away.
   */
  readonly #since = new WeakMap<JobEntry, { readonly tries: number; at: number }>();

  get size(): number {
    return this.#waits.size;
  }

  has(entry: JobEntry): boolean {
    return this.#waits.has(entry);
  }

  of(entry: JobEntry): StickyWait | undefined {
    return this.#waits.get(entry);
  }

  /** The number of jobs that wait for a backend. */
  waitingFor(backend: string): number {
    return this.#lists.get(backend)?.jobs.size ?? 0;
  }

  /** The instant from which the time of a job counts that begins to wait, or has waited here before. */
  since(entry: JobEntry, now: number): number {
    const known = this.#since.get(entry);
    return known?.tries === entry.job.tries ? known.at : now;
  }

  /** Whether a job has waited here for a while, for its present try. */
  hasWaited(entry: JobEntry, now: number): boolean {
    return this.since(entry, now) < now;
  }

  add(entry: JobEntry, backend: BackendEntry, until: number, now: number): void {
    const { name } = backend.info;
    let list = this.#lists.get(name);
    if (!list) {
      list = new StickyList(backend);
      this.#lists.set(name, list);
    }
    this.#since.set(entry, { tries: entry.job.tries, at: this.since(entry, now) });
    const wait = new StickyWait(entry, list, until);
    this.#waits.set(entry, wait);
    list.jobs.push(wait);
    list.heldAt = undefined;
    this.#timers.push(wait);
    entry.parked = 'sticky';
    this.note(backend);
  }

  leave(entry: JobEntry): void {
    const wait = this.#waits.get(entry);
    if (!wait) return;
    const { list } = wait;
    this.#waits.delete(entry);
    list.jobs.remove(wait);
    list.heldAt = undefined;
    this.#timers.remove(wait);
    if (list.jobs.size > 0) return;
    const { name } = list.backend.info;
    // Another backend may have the name of a removed one by now.
    if (this.#lists.get(name) === list) this.#lists.delete(name);
    this.#ready.delete(list);
    this.#lost.delete(list);
  }

  /** Call after anything about a backend has changed. */
  note(backend: BackendEntry): void {
    const list = this.#lists.get(backend.info.name);
    if (!list) return;
    if (backend.free) this.#ready.add(list);
    else {
      this.#ready.delete(list);
      list.heldAt = undefined;
    }
    if (list.mayHaveLost) this.#lost.add(list);
  }

  /** A backend was removed for good; another one may get its name. */
  noteRemoved({ info }: BackendEntry): void {
    const list = this.#lists.get(info.name);
    if (!list) return;
    this.#lists.delete(info.name);
    this.#ready.delete(list);
    list.isGone = true;
    this.#lost.add(list);
  }

  /** The job that goes first of those whose backend is free; `version`: that of the gates. */
  next(version: number): StickyWait | undefined {
    let best: StickyWait | undefined;
    for (const list of this.#ready) {
      if (list.heldAt === version) continue;
      const first = list.jobs.peek();
      if (first && (!best || ahead(first.entry, best.entry))) best = first;
    }
    return best;
  }

  /** The job cannot start although its backend is free: it is looked at again when the gates have changed. */
  hold(entry: JobEntry, version: number): void {
    const list = this.#waits.get(entry)?.list;
    if (list) list.heldAt = version;
  }

  /** When the time of the next job is over. */
  nextDue(): number {
    return this.#timers.peek()?.until ?? Number.POSITIVE_INFINITY;
  }

  get hasLost(): boolean {
    return this.#lost.size > 0;
  }

  /** Takes out up to `most` jobs that wait no longer for their backend. */
  *release(now: number, most: number, laneFor: LaneFor): Generator<JobEntry> {
    let count = 0;
    for (const list of this.#lost) {
      const lost = list.lost(laneFor);
      for (const { entry } of lost.slice(0, most - count)) {
        this.leave(entry);
        count++;
        yield entry;
      }
      if (lost.length === 0 || count < most) this.#lost.delete(list);
    }
    for (
      let wait = this.#timers.peek();
      wait && wait.until <= now && count < most;
      wait = this.#timers.peek()
    ) {
      this.leave(wait.entry);
      count++;
      yield wait.entry;
    }
  }

  /** Brain time was stepped: the rest of every wait stays as it was. */
  moveInstants(byMs: number): void {
    for (const wait of this.#waits.values()) {
      wait.until += byMs;
      const since = this.#since.get(wait.entry);
      if (since) since.at += byMs;
    }
  }
}
