/**
 * Which blob files the jobs in memory name. The store never asks the brain: it sees every record that it recovers,
 * every change that is appended, and knows which ended jobs it has told to be in the history.
 *
 * B1  A file counts as used for as long as the brain may have a job in memory that names it.
 */
import type { JobBundle, Seq } from '../../core/ports/store.ts';
import type { Body, Change } from '../../model/records.ts';
import { isOpen, isTerminal } from '../../model/states.ts';
import { fileOf } from './blobs.ts';

interface NamedFiles {
  payload: number | undefined;
  result: number | undefined;
  isTerminal: boolean;
  /** The last change of the job. */
  seq: Seq;
  /** The number of the sweep before which the brain was told that the history has the job. */
  indexedBefore: number | undefined;
}

export class BlobUse {
  /** Only jobs that name a file: most have small bodies. */
  readonly #jobs = new Map<string, NamedFiles>();
  readonly #counts = new Map<number, number>();
  /** While recovering: jobs with an open attempt, which stay in memory even when they are over. */
  #open: Set<string> | undefined = new Set();
  #sweeps = 0;
  #leaving: string[] = [];

  has(file: number): boolean {
    return this.#counts.has(file);
  }

  /** A job as a checkpoint has it. */
  recovered({ uid, ask, job, attempts, seq }: JobBundle): void {
    if (attempts.some(({ state }) => isOpen(state))) this.#open?.add(uid);
    this.#setPayload(uid, ask.payload, seq);
    this.#setJob(uid, job.result, isTerminal(job.state), seq);
  }

  /** A change that was recovered from the log, or was appended to it. */
  changed(change: Change, seq: Seq): void {
    if (!change.after) return;
    switch (change.kind) {
      case 'ask':
        this.#drop(change.id);
        this.#setPayload(change.id, change.after.payload, seq);
        return;
      case 'job':
        this.#setJob(change.id, change.after.result, isTerminal(change.after.state), seq);
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

  /** Everything is recovered: the brain forgets the ended jobs that the history has. */
  opened(indexedUpTo: Seq): void {
    for (const [uid, files] of this.#jobs) {
      if (files.isTerminal && files.seq <= indexedUpTo && !this.#open?.has(uid)) this.#drop(uid);
    }
    this.#open = undefined;
  }

  /** The brain is told that the history has these jobs: it forgets each that no change has touched since. */
  indexed(jobs: readonly { readonly uid: string; readonly seq: Seq }[]): void {
    if (this.#jobs.size === 0) return;
    for (const { uid, seq } of jobs) {
      const files = this.#jobs.get(uid);
      if (files?.seq !== seq) continue;
      files.indexedBefore = this.#sweeps + 1;
      this.#leaving.push(uid);
    }
  }

  /**
   * Called before unused files are looked for. What the brain was told before the last sweep it has acted on by now;
   * what it was told since may still be on its way, and a redrive may have come before it.
   */
  sweep(): void {
    this.#sweeps++;
    const later: string[] = [];
    for (const uid of this.#leaving) {
      const told = this.#jobs.get(uid)?.indexedBefore;
      if (told === undefined) continue;
      if (told < this.#sweeps) this.#drop(uid);
      else later.push(uid);
    }
    this.#leaving = later;
  }

  #setPayload(uid: string, payload: Body, seq: Seq): void {
    const file = fileOf(payload);
    if (file === undefined) return;
    this.#count(file, 1);
    this.#jobs.set(uid, {
      payload: file,
      result: undefined,
      isTerminal: false,
      seq,
      indexedBefore: undefined,
    });
  }

  #setJob(uid: string, result: Body | undefined, terminal: boolean, seq: Seq): void {
    const file = fileOf(result);
    const files = this.#jobs.get(uid);
    if (!files) {
      if (file === undefined) return;
      this.#count(file, 1);
      this.#jobs.set(uid, {
        payload: undefined,
        result: file,
        isTerminal: terminal,
        seq,
        indexedBefore: undefined,
      });
      return;
    }
    if (files.result !== file) {
      if (file !== undefined) this.#count(file, 1);
      if (files.result !== undefined) this.#count(files.result, -1);
      files.result = file;
    }
    files.isTerminal = terminal;
    files.seq = seq;
    files.indexedBefore = undefined;
    if (files.payload === undefined && file === undefined) this.#jobs.delete(uid);
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
    if (files.payload !== undefined) this.#count(files.payload, -1);
    if (files.result !== undefined) this.#count(files.result, -1);
  }

  #count(file: number, by: 1 | -1): void {
    const count = (this.#counts.get(file) ?? 0) + by;
    if (count === 0) this.#counts.delete(file);
    else this.#counts.set(file, count);
  }
}
