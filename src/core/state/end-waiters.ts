/**
 * Which jobs wait for the end of which other jobs: queued ones for those that they name in `after`, waiting ones for jobs
 * below them. The job that is waited for may have ended and left memory.
 *
 * W1  `JobEntry.waitsFor` is the number of jobs that hold the job back; a job with 0 is not held back.
 * W2  The end of a job only puts it on the list of jobs with unsettled waiters: attempts/dependencies.ts releases these, a
 *     bounded number in a step, because 100,000 jobs may wait for one end. A job that lives again, by a redrive, holds its
 *     waiters back in the same way.
 * W3  A waiting job that may go on is in `wakeable` until attempts/waiting.ts has woken it. Whether it may is judged again
 *     then, once nothing is unsettled: after a restart the jobs below it come later than the job itself.
 */
import { SmallSet } from '../../kit/small-set.ts';
import { type AskRecord, type JobRecord, uidOf } from '../../model/records.ts';
import { type EndState, isTerminal } from '../../model/states.ts';
import type { JobEntry } from './job-entry.ts';

/** A job that others wait for. */
export class Awaited {
  readonly uid: string;
  /** The jobs that are held back by this one. */
  readonly held = new SmallSet<JobEntry>();
  /** The jobs that name this one and are not held back by it. */
  readonly released = new SmallSet<JobEntry>();
  /** How the job has ended; undefined while it is live. */
  end: EndState | undefined;

  constructor(uid: string, end: EndState | undefined) {
    this.uid = uid;
    this.end = end;
  }

  /** The next job that this one has to release or, if it lives again, to hold back. */
  get unsettled(): JobEntry | undefined {
    return (this.end === undefined ? this.released : this.held).first;
  }
}

export class EndWaiters {
  readonly #awaited = new Map<string, Awaited>();
  /**
   * The awaited jobs that may have unsettled waiters. The last one is settled first: where the end of a job ends its
   * waiters, and theirs in turn, the list stays short.
   */
  readonly #unsettled: Awaited[] = [];
  /** Waiting jobs that may go on. */
  readonly wakeable = new Set<JobEntry>();

  get isUnsettled(): boolean {
    return this.#unsettled.length > 0 || this.wakeable.size > 0;
  }

  /** The awaited jobs that may have unsettled waiters. */
  get unsettled(): readonly Awaited[] {
    return this.#unsettled;
  }

  /** The job with this uid, if jobs wait for its end. */
  of(uid: string): Awaited | undefined {
    return this.#awaited.get(uid);
  }

  /** Adds a job that waits for others. `endOf` says how a job that it names has ended. */
  add(entry: JobEntry, endOf: (uid: string) => EndState | undefined): void {
    const isWaiting = entry.job.state === 'waiting';
    for (const uid of awaitedBy(entry)) {
      const awaited = this.#awaited.get(uid) ?? this.#begin(uid, endOf(uid));
      if (awaited.held.has(entry) || awaited.released.has(entry)) continue;
      const isOver = isWaiting ? awaited.end !== undefined : awaited.end === 'succeeded';
      if (isOver) awaited.released.add(entry);
      else this.#hold(awaited, entry);
      // attempts/dependencies.ts decides whether a bad end ends the waiter too, as for every other end.
      if (awaited.end !== undefined && !isOver) this.#unsettled.push(awaited);
    }
    this.#noteWakeable(entry);
  }

  /** Removes a job that no longer waits for the jobs with these ids. */
  remove(entry: JobEntry, ids: readonly string[]): void {
    this.wakeable.delete(entry);
    for (const id of ids) {
      const uid = uidOf(entry.ask.tenant, id);
      const awaited = this.#awaited.get(uid);
      if (!awaited) continue;
      awaited.held.delete(entry);
      awaited.released.delete(entry);
      this.#tidy(awaited);
    }
    entry.waitsFor = 0;
  }

  /** A job has ended, or lives again. */
  moved(uid: string, end: EndState | undefined): void {
    const awaited = this.#awaited.get(uid);
    if (!awaited || awaited.end === end) return;
    awaited.end = end;
    if (awaited.unsettled) this.#unsettled.push(awaited);
  }

  /** The end of a job that is no longer in memory is still to be passed on to `entry`, which is held back until then. */
  passOn(uid: string, end: EndState, entry: JobEntry): void {
    const awaited = this.#awaited.get(uid) ?? this.#begin(uid, end);
    awaited.end = end;
    if (!awaited.held.has(entry)) this.#hold(awaited, entry);
    this.#unsettled.push(awaited);
  }

  /**
   * After a restart: a record says that the end of a job was not passed on to all jobs that name it. Returns those that are
   * held back from now on. `end` is undefined if the job lives again: then only the record is out of date.
   */
  resume(uid: string, end: EndState | undefined): readonly JobEntry[] {
    const awaited = this.#awaited.get(uid) ?? this.#begin(uid, end);
    awaited.end = end;
    const held = end === undefined ? [] : [...awaited.released];
    for (const entry of held) this.#hold(awaited, entry);
    this.#unsettled.push(awaited);
    return held;
  }

  /** Releases a waiter of a job that has ended, or holds back one of a job that lives again. */
  settle(awaited: Awaited, entry: JobEntry): void {
    if (awaited.end === undefined) return this.#hold(awaited, entry);
    awaited.held.delete(entry);
    awaited.released.add(entry);
    entry.waitsFor--;
    this.#noteWakeable(entry);
  }

  #noteWakeable(entry: JobEntry): void {
    if (childrenHaveEnded(entry)) this.wakeable.add(entry);
  }

  /** Takes the last job off the list once none of its waiters is unsettled. */
  pop(): void {
    const awaited = this.#unsettled.pop();
    if (awaited) this.#tidy(awaited);
  }

  #begin(uid: string, end: EndState | undefined): Awaited {
    const awaited = new Awaited(uid, end);
    this.#awaited.set(uid, awaited);
    return awaited;
  }

  #hold(awaited: Awaited, entry: JobEntry): void {
    awaited.released.delete(entry);
    awaited.held.add(entry);
    entry.waitsFor++;
  }

  #tidy(awaited: Awaited): void {
    const isEmpty = awaited.held.size + awaited.released.size === 0;
    if (isEmpty && this.#awaited.get(awaited.uid) === awaited) this.#awaited.delete(awaited.uid);
  }
}

const NONE: readonly string[] = [];

/** The ids of the jobs whose end a job with these records waits for: before its first attempt, or between two of them. */
export function awaitedIds(ask: AskRecord, { state, attempt, wait }: JobRecord): readonly string[] {
  if (state === 'waiting') return wait?.children ?? NONE;
  return state === 'queued' && attempt === 0 ? (ask.spec.after ?? NONE) : NONE;
}

/** The uids of the jobs whose end a job waits for. */
export const awaitedBy = ({ ask, job }: JobEntry): readonly string[] =>
  awaitedIds(ask, job).map((id) => uidOf(ask.tenant, id));

/** Whether as many jobs below a waiting job have ended as it waits for. */
export function childrenHaveEnded({ job: { state, wait }, waitsFor }: JobEntry): boolean {
  if (state !== 'waiting' || !wait || wait.children.length === 0) return false;
  return wait.needs === 'any' ? waitsFor < wait.children.length : waitsFor === 0;
}

/** How a job has ended; undefined if it is live. One that is not in memory has ended well, or its end was passed on. */
export function endOfEntry(entry: JobEntry | undefined): EndState | undefined {
  if (!entry) return 'succeeded';
  return isTerminal(entry.job.state) ? (entry.job.state as EndState) : undefined;
}
