/**
 * Counts which blob files the jobs and the sessions in the brain's memory reference. The store never asks the brain: it derives this
 * from the records it recovers, the changes appended to it, and the ended jobs it has reported as indexed.
 *
 * B1  A file counts as used for as long as the brain may have a job or a session in memory that references it. A session
 *     that leaves memory for the archive is there before.
 */

import type { JobBundle, Recovery, Seq } from '../../core/ports/store.ts';
import type { Body } from '../../model/body.ts';
import { keptBody } from '../../model/kept-body.ts';
import { namedBodies } from '../../model/named-bodies.ts';
import type { Change } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { isOpen, isTerminal } from '../../model/states.ts';
import { type FileSpan, filesOf, spanOf } from './blobs.ts';

interface JobBlobFiles {
  /** The blob files of the payload. */
  payload: FileSpan | undefined;
  /** The blob files of the body that the job keeps beside its payload. */
  kept: FileSpan | undefined;
  isTerminal: boolean;
  /** The last change of the job. */
  seq: Seq;
  /** The number of the first sweep after the job was reported as indexed; undefined where it was not. */
  indexedBefore: number | undefined;
}

export class BlobUse {
  /** By uid. Jobs without a blob file, which are most, are left out. */
  readonly #jobs = new Map<string, JobBlobFiles>();
  /** The files of sessions, by the ids of their records. Sessions without a blob file are left out. */
  readonly #sessions = new Map<string, FileSpan>();
  /** The number of references to each blob file. */
  readonly #counts = new Map<number, number>();
  /** Jobs with an open attempt, which stay in memory even in a terminal state; needed only until opened(). */
  #open: Set<string> | undefined = new Set();
  #sweeps = 0;
  /** Jobs that were reported as indexed and are still counted. */
  #indexed: string[] = [];

  has(file: number): boolean {
    return this.#counts.has(file);
  }

  /** The files that jobs and sessions in memory refer to. */
  files(): Iterable<number> {
    return this.#counts.keys();
  }

  /** Adds a recovered job. */
  recovered({ uid, ask, job, attempts, seq }: JobBundle): void {
    if (attempts.some(({ state }) => isOpen(state))) this.#open?.add(uid);
    this.#setPayload(uid, ask.payload, seq);
    this.#setJob(uid, keptBody(job), isTerminal(job.state), seq);
  }

  /** Takes the record of a session, as it is from now on; null for one that leaves memory. */
  session(id: string, record: SessionRecord | null): void {
    const former = this.#sessions.get(id);
    const span = record ? spanOf(namedBodies('session', record)) : undefined;
    this.#count(span, 1);
    this.#count(former, -1);
    if (span) this.#sessions.set(id, span);
    else if (former) this.#sessions.delete(id);
  }

  /** Takes a change that was appended to the log. */
  changed(change: Change, seq: Seq): void {
    if (change.kind === 'session') return this.session(change.id, change.after);
    if (!change.after) return;
    switch (change.kind) {
      case 'ask':
        this.#drop(change.id);
        this.#setPayload(change.id, change.after.payload, seq);
        return;
      case 'job':
        this.#setJob(change.id, keptBody(change.after), isTerminal(change.after.state), seq);
        return;
      case 'attempt': {
        const { job: uid, state } = change.after;
        if (isOpen(state)) this.#open?.add(uid);
        else this.#open?.delete(uid);
        this.#touch(uid, seq);
        return;
      }
      default:
    }
  }

  /** Recovery is complete: drops the ended jobs that the history holds, as the brain does. */
  opened(indexedUpTo: Seq): void {
    for (const [uid, files] of this.#jobs) {
      if (files.isTerminal && files.seq <= indexedUpTo && !this.#open?.has(uid)) this.#drop(uid);
    }
    this.#open = undefined;
  }

  /** These jobs are reported to the brain as indexed; it drops each of them that has not changed since. */
  indexed(jobs: readonly { readonly uid: string; readonly seq: Seq }[]): void {
    if (this.#jobs.size === 0) return;
    for (const { uid, seq } of jobs) {
      const files = this.#jobs.get(uid);
      if (files?.seq !== seq) continue;
      files.indexedBefore = this.#sweeps + 1;
      this.#indexed.push(uid);
    }
  }

  /**
   * Called before unused files are looked for. A job that was reported as indexed before the last sweep has left the
   * brain's memory by now. One reported since is still counted: the brain may not have handled the report yet, and a
   * redrive may come before it.
   */
  sweep(): void {
    this.#sweeps++;
    const remaining: string[] = [];
    for (const uid of this.#indexed) {
      const indexedBefore = this.#jobs.get(uid)?.indexedBefore;
      if (indexedBefore === undefined) continue;
      if (indexedBefore < this.#sweeps) this.#drop(uid);
      else remaining.push(uid);
    }
    this.#indexed = remaining;
  }

  #setPayload(uid: string, payload: Body, seq: Seq): void {
    const span = filesOf(payload);
    if (!span) return;
    this.#count(span, 1);
    this.#jobs.set(uid, {
      payload: span,
      kept: undefined,
      isTerminal: false,
      seq,
      indexedBefore: undefined,
    });
  }

  #setJob(uid: string, kept: Body | undefined, terminal: boolean, seq: Seq): void {
    const span = filesOf(kept);
    const files = this.#jobs.get(uid);
    if (!files) {
      if (!span) return;
      this.#count(span, 1);
      this.#jobs.set(uid, {
        payload: undefined,
        kept: span,
        isTerminal: terminal,
        seq,
        indexedBefore: undefined,
      });
      return;
    }
    this.#count(span, 1);
    this.#count(files.kept, -1);
    files.kept = span;
    files.isTerminal = terminal;
    files.seq = seq;
    files.indexedBefore = undefined;
    if (!files.payload && !span) this.#jobs.delete(uid);
  }

  #touch(uid: string, seq: Seq): void {
    const files = this.#jobs.get(uid);
    if (!files) return;
    files.seq = seq;
    files.indexedBefore = undefined;
  }

  #drop(uid: string): void {
    const files = this.#jobs.get(uid);
    if (!files) return;
    this.#jobs.delete(uid);
    this.#count(files.payload, -1);
    this.#count(files.kept, -1);
  }

  #count(span: FileSpan | undefined, by: 1 | -1): void {
    if (!span) return;
    for (let file = span.low; file <= span.high; file++) {
      const count = (this.#counts.get(file) ?? 0) + by;
      if (count === 0) this.#counts.delete(file);
      else this.#counts.set(file, count);
    }
  }
}

/** Passes recovered records on to `into`, and records in `use` which blob files they reference. */
export const countingBlobs = (into: Recovery, use: BlobUse): Pick<Recovery, 'job' | 'record'> => ({
  job: (bundle) => {
    use.recovered(bundle);
    into.job(bundle);
  },
  record: (record) => {
    if (record.kind === 'session') use.session(record.id, record.after);
    into.record(record);
  },
});
