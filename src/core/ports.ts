/** The narrow interfaces between the brain and what it stands on. Implementations live outside core. */

import type { AskRecord, AttemptRecord, BlobRef, Change, JobRecord } from '../model/records.ts';
import type { State } from './state/state.ts';

export type Seq = number;

/** A job with everything that belongs to it, as checkpoints and the history keep it. */
export interface JobBundle {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  /** In order; all of them in the history, only the open one in a checkpoint. */
  readonly attempts: readonly AttemptRecord[];
  /** The last change to any of it. */
  readonly seq: Seq;
}

/** A job that has left memory, as far as the history was asked for it. */
export type EndedJob = Pick<JobBundle, 'ask' | 'job'> & Partial<Pick<JobBundle, 'attempts'>>;

export interface HistoryQuery {
  readonly tenant: string;
  readonly states?: readonly string[];
  readonly type?: string;
  readonly session?: string;
  readonly key?: string;
  readonly principal?: string;
  /** Only jobs admitted before this place. */
  readonly before?: number;
  readonly limit: number;
}

/** Whether a job is one of those that are asked for. */
export function isAskedFor(query: HistoryQuery, ask: AskRecord, job: JobRecord): boolean {
  if (ask.tenant !== query.tenant) return false;
  if (query.before !== undefined && ask.n >= query.before) return false;
  if (query.states && !query.states.includes(job.state)) return false;
  if (query.type !== undefined && ask.spec.type !== query.type) return false;
  if (query.session !== undefined && ask.spec.session_id !== query.session) return false;
  if (query.key !== undefined && ask.spec.key !== query.key) return false;
  return query.principal === undefined || ask.spec.agent === query.principal;
}

/** Ended jobs that have left memory; a derived index, apart from the write contract. */
export interface HistoryReads {
  get(uid: string): Promise<JobBundle | undefined>;
  /** Newest first. */
  list(query: HistoryQuery): Promise<JobBundle[]>;
  count(): Promise<number>;
}

export interface PurgeResult {
  readonly jobs: number;
  /** The highest attempt number of the purged jobs whose id their caller chose. */
  readonly attemptFloor: number;
}

/** Called by the store, never before what it tells of is so. */
export interface StoreEvents {
  /**
   * Everything up to here is on stable storage. Returns whether every job that had ended by then was offered to
   * the history: it was not when the brain has stopped, or when such a job has gone on in what is not durable yet.
   */
  durable(seq: Seq): boolean;
  /** The history has these ended jobs as of these changes: they may leave memory. */
  indexed(jobs: readonly { readonly uid: string; readonly seq: Seq }[]): void;
  space(full: boolean): void;
  /** No write will ever succeed again: discard the engine. */
  failed(error: Error): void;
}

export interface StoreCapabilities {
  /** `exclusive`: a second opener is refused. `epoch`: it is let in and the first one is fenced. */
  readonly secondOpener: 'exclusive' | 'epoch';
}

export interface Store {
  readonly capabilities: StoreCapabilities;
  /**
   * Rebuilds the state from what is durable, and makes sure that what it read stays so. Returns the latest
   * instant that was committed.
   */
  open(state: State, events: StoreEvents, now: number): Promise<number>;
  /** What the clock of this machine is behind that of the store, where the store has one of its own. */
  readonly skewMs?: number;
  /** Whether it may still be acted for: false when another one may have opened it since. */
  holds(): boolean;
  /** Order is sequence. Synchronous and bounded; fails only for good. */
  append(changes: readonly Change[], now: number): Seq;
  /** Bytes waiting for the disk: past the store's bound new work is refused. */
  readonly overloaded: boolean;
  /** Returns when the bytes are durable: before any record that names them. */
  putBlob(text: string): Promise<BlobRef>;
  readBlob(ref: BlobRef): Promise<string>;
  readonly history: HistoryReads;
  /** Offers an ended job to the history. */
  index(bundle: JobBundle): void;
  /** Forgets ended jobs older than `endedBefore`; returns what the brain must remember of them first. */
  planPurge(endedBefore: number, limit: number): Promise<PurgeResult>;
  purge(endedBefore: number, limit: number): Promise<void>;
  checkpoint(): Promise<void>;
  close(): Promise<void>;
}

/** One node's time as the leader. */
export interface Term {
  readonly epoch: number;
  /** Whether it is certain that no other node leads; without that nothing may be done for the brain. */
  holds(): boolean;
  /** Resolves when it is over, or may be. */
  readonly over: Promise<void>;
}

export interface Leader {
  readonly epoch: number;
  readonly node: string;
  /** Where the others reach it. */
  readonly address: string;
  /** How long its main loop had been silent when it last renewed. */
  readonly silentMs: number;
}

/** The right to be the brain, which one node has at a time. */
export interface Leadership {
  /** What is locked to shorten the wait for it. */
  readonly lockName: string;
  /** Who leads, as far as is known here. */
  readonly leader: Leader | undefined;
  /** Makes the store ready; refuses one that cannot be used. */
  open(self: { readonly node: string; readonly address: string }): Promise<void>;
  /** Resolves when this node leads. */
  win(): Promise<Term>;
  /** Gives it up, for the next one to take at once. */
  resign(): Promise<void>;
  /** Called whenever another one leads, or nobody. */
  onChange(listener: () => void): void;
  close(): Promise<void>;
}
