/** What the brain keeps its records in. Implementations live outside of core. */

import type {
  AskRecord,
  AttemptRecord,
  BlobRef,
  Change,
  JobRecord,
  RecordKind,
  RecordKinds,
} from '../../model/records.ts';

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

type LooseKind = Exclude<RecordKind, 'ask' | 'job' | 'attempt'>;

/** A record that belongs to no job. */
export type LooseRecord = {
  [K in LooseKind]: { readonly kind: K; readonly id: string; readonly after: RecordKinds[K] };
}[LooseKind];

/** Takes over what a store has kept while it opens: records first, then the changes behind them. */
export interface Recovery {
  /** In any order, each job once. */
  job(bundle: JobBundle): void;
  /** Failures in the order in which they were written, the others in any order. */
  record(record: LooseRecord): void;
  /** A change that is not in those records yet, with its place in the order of everything. */
  change(change: Change, seq: Seq): void;
}

export interface Recovered {
  /** The last durable change. */
  readonly seq: Seq;
  /** The latest instant that was committed. */
  readonly at: number;
  /** Every job that had ended at or before this change is in the history, or was purged from it. */
  readonly indexedUpTo: Seq;
  /** What the clock of this machine is behind that of the store, where the store has one of its own. */
  readonly skewMs?: number;
}

/** Called by the store, never before what it tells of is so. */
export interface StoreEvents {
  /** Everything up to here is on stable storage. */
  durable(seq: Seq): void;
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
  /** Hands over everything that is durable, and makes sure that it stays so. */
  open(events: StoreEvents, now: number, into: Recovery): Promise<Recovered>;
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
  /**
   * Hands ended jobs over to the history, once their end is durable. `upTo`: every job that had ended at or before
   * this change was handed over, now or earlier; the history's watermark never passes it.
   */
  index(ended: readonly JobBundle[], upTo: Seq): void;
  /** Forgets ended jobs older than `endedBefore`; returns what the brain must remember of them first. */
  planPurge(endedBefore: number, limit: number): Promise<PurgeResult>;
  purge(endedBefore: number, limit: number): Promise<void>;
  checkpoint(): Promise<void>;
  close(): Promise<void>;
}
