/** Builds the state from the records of a store: the only place where stored records become jobs in memory. */

import { isKept } from '../model/kept-attempts.ts';
import type { AttemptRecord, Change } from '../model/records.ts';
import { PAST_ATTEMPTS } from '../model/records.ts';
import { isOpen } from '../model/states.ts';
import type { JobBundle, LooseRecord, Recovered, Recovery, Seq } from './ports/store.ts';
import { endOfEntry } from './state/end-waiters.ts';
import { JobEntry, type WritableRecords } from './state/job-entry.ts';
import type { State } from './state/state.ts';

export class Restore implements Recovery {
  readonly #state: State;
  readonly #now: number;
  /** Jobs not yet in the state: stores deliver them in any order, the state takes them in order of admission. */
  #jobs: JobBundle[] = [];

  constructor(state: State, now: number) {
    this.#state = state;
    this.#now = now;
  }

  job(bundle: JobBundle): void {
    this.#jobs.push(bundle);
  }

  record(record: LooseRecord): void {
    switch (record.kind) {
      case 'brain':
        this.#state.brain = record.after;
        return;
      case 'failure':
        this.#state.restoreFailure(record.id, record.after);
        return;
      case 'lease':
        this.#state.leases.set(record.id, record.after);
        return;
      default:
        this.#state.keep(record);
    }
  }

  change(change: Change, seq: Seq): void {
    if (this.#jobs.length > 0) this.#addJobs(this.#now);
    this.#state.seq = seq - 1;
    this.#state.apply(change, this.#now);
  }

  /** Call once the store is open. Ended jobs that are already in the history are dropped from memory. */
  finish({ seq, indexedUpTo, skewMs = 0 }: Recovered): void {
    this.#addJobs(this.#now + skewMs);
    this.#state.seq = seq;
    // Sessions expire from the front of the table, so the least recently used one must come first.
    this.#state.sessions.sort((a, b) => a.usedAt - b.usedAt);
    this.#state.batches.sort((a, b) => a.at - b.at);
    this.#resumeEnds(this.#now + skewMs);
    for (const entry of [...this.#state.ended]) {
      if (entry.seq <= indexedUpTo) this.#state.forget(entry);
    }
  }

  /** Ends that were being passed on to the jobs that wait for them. */
  #resumeEnds(now: number): void {
    const { jobs, tables, waiters } = this.#state;
    for (const [uid, { end }] of tables.failed_dependency.entries()) {
      const job = jobs.get(uid);
      const held = waiters.resume(uid, job ? endOfEntry(job) : end);
      for (const entry of held) this.#state.settle(entry, now);
    }
  }

  #addJobs(now: number): void {
    const jobs = this.#jobs.sort((a, b) => a.ask.n - b.ask.n);
    this.#jobs = [];
    for (const bundle of jobs) this.#state.restore(entryOf(bundle), now);
  }
}

function entryOf({ uid, ask, job, seq, attempts }: JobBundle): JobEntry {
  const entry = new JobEntry(uid, ask, job, seq);
  if (attempts.length === 0) return entry;
  const records: WritableRecords = entry;
  records.open = attempts.find(({ state }) => isOpen(state));
  const isPast = (attempt: AttemptRecord): boolean => attempt !== entry.open && isKept(attempt);
  const past = attempts.filter(isPast).slice(-PAST_ATTEMPTS);
  if (past.length > 0) records.past = past;
  return entry;
}
