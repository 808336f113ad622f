/** The narrow interfaces between the brain and what it stands on. Implementations live outside core. */

import type { ErrorInfo } from '../model/errors.ts';
import type { ResolvedModel, VerifyModel, VerifyResult } from '../model/pool-wire.ts';
import type {
  AskRecord,
  AttemptRecord,
  BlobRef,
  Change,
  JobRecord,
  RecordKind,
  RecordKinds,
  WorkerRecord,
} from '../model/records.ts';
import type { Commander } from '../model/worker-wire.ts';
import type { JobEntry } from './entry.ts';
import type { Outcome, UsedTokens } from './events.ts';
import type { BackendInfo } from './fleet.ts';
import type { PoolReport } from './pools/pools.ts';
import type { State } from './state.ts';

export type { Commander };
export type Seq = number;

/** The brain as executors know it. */
export const commanderOf = ({ brain }: State): Commander => ({
  owner: brain?.owner ?? '',
  epoch: brain?.epoch ?? 0,
});

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

export function bundleOf(entry: JobEntry): JobBundle {
  const past = entry.past ?? [];
  return {
    uid: entry.uid,
    ask: entry.ask,
    job: entry.rec,
    attempts: entry.open ? [...past, entry.open] : past,
    seq: entry.seq,
  };
}

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
  if (query.type !== undefined && ask.type !== query.type) return false;
  if (query.session !== undefined && ask.session !== query.session) return false;
  if (query.key !== undefined && ask.key !== query.key) return false;
  return query.principal === undefined || ask.principal === query.principal;
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

/** What is sent with an offer. */
export interface Offer {
  readonly token: string;
  readonly owner: string;
  readonly epoch: number;
  readonly ask: AskRecord;
  readonly payloadText: string;
  readonly attempt: number;
  /**
   * The memory that the intent counted on. An executor with another one turns the offer away as busy: it may be
   * a copy that comes late, of an attempt that was settled while nobody here remembered it.
   */
  readonly registry: string | undefined;
}

/** Whether an offer counts on this memory; one that says nothing of it is taken. */
export const isMeantFor = (registry: string, offer: Offer): boolean =>
  offer.registry === undefined || offer.registry === registry;

export type OfferReply =
  | { readonly is: 'accepted' }
  | { readonly is: 'busy'; readonly retryAfterMs?: number }
  | { readonly is: 'refused'; readonly error: ErrorInfo }
  | { readonly is: 'fenced' };

/** An outcome with its result as text, before it is stored. */
export type ExecutionOutcome =
  | { readonly ok: true; readonly resultText: string; readonly usage?: UsedTokens }
  | Exclude<Outcome, { readonly ok: true }>;

export type ExecutionStatus =
  | { readonly is: 'running' }
  | { readonly is: 'ended'; readonly outcome: ExecutionOutcome }
  /** It has ended, and how is no longer known. */
  | { readonly is: 'forgotten' };

export interface Inspection {
  readonly registry: string;
  /** The executor remembers every token it was offered since then. */
  readonly rememberedSince: number;
  readonly known: ReadonlyMap<string, ExecutionStatus>;
}

export type KillReply =
  | { readonly is: 'ended'; readonly outcome: ExecutionOutcome }
  /** The order has arrived; the end will be seen when it comes. */
  | { readonly is: 'stopping' }
  /** It was only to be buried, and runs: it was left alone. */
  | { readonly is: 'running' }
  /** Not known here; the token is refused from now on. */
  | { readonly is: 'tombstoned'; readonly registry: string; readonly rememberedSince: number }
  | { readonly is: 'fenced' };

/** `bury` is for certainty that it does not run: where it does after all, nothing is to happen to it. */
export type KillHow = 'end' | 'bury';

/** One event of an execution, numbered from 1 by the executor itself. */
export interface ExecutionEvent {
  readonly n: number;
  readonly type: 'started' | 'token' | 'metrics' | 'end' | 'error';
  readonly data: unknown;
  /** The data as its executor wrote it, where that is at hand: it is passed on without being written again. */
  readonly text?: string;
}

/** A worker that is to be started. */
export type WorkerOrder = { readonly id: string } & Pick<
  WorkerRecord,
  'pool' | 'device' | 'modelRef' | 'vramBytes' | 'vramGuessed' | 'slots' | 'contextLength'
>;

/** Hears what pool managers say. */
export interface PoolsListener {
  /** With the way to each of its workers that can be reached. */
  reported(report: PoolReport, workers: readonly Backend[]): void;
  /** It has not answered for too long. */
  lost(pool: string): void;
  awaited(name: string, awaited: boolean): void;
}

/** The pool managers: every order may be repeated. What they refuse is thrown as an OrchdError. */
export interface PoolManagers {
  start(listener: PoolsListener): void;
  stop(): Promise<void>;
  startWorker(order: WorkerOrder, who: Commander): Promise<void>;
  drainWorker(pool: string, worker: string, who: Commander): Promise<void>;
  stopWorker(pool: string, worker: string, who: Commander): Promise<void>;
  /** One has said where it is, and what it wants to be shown. */
  register(url: string, secret: string | undefined, id: string): void;
  /** A model with its revision and file pinned; undefined where no pool has it. */
  resolve(ref: string): Promise<ResolvedModel | undefined>;
  verify(
    model: VerifyModel,
    onProgress: (bytes: number, total: number) => void,
  ): Promise<VerifyResult & { readonly pool: string }>;
  /** A pool is gone for good. */
  forgetPool(id: string): void;
  /** A worker is gone: nothing will be asked of it any more. */
  forget(backend: string): void;
}

/** How following an execution came to its end. */
export type FollowEnd =
  | { readonly is: 'ended'; readonly outcome: ExecutionOutcome }
  | { readonly is: 'lost' };

/**
 * Anything that executes. Every call is idempotent by token; a call that throws means: no answer, anything may
 * have happened.
 */
export interface Backend {
  readonly info: BackendInfo;
  offer(offer: Offer): Promise<OfferReply>;
  inspect(tokens: readonly string[], who: Commander): Promise<Inspection>;
  /** Hands on the events after `from`, then says how it ended; `lost` when the signal asked it to stop. */
  follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd>;
  /** A token that is not known here is refused from now on; one that is known ends, unless it was only to be buried. */
  kill(token: string, who: Commander, how?: KillHow): Promise<KillReply>;
  /** After our commit: the executor may drop the result. */
  ack(token: string, who: Commander): Promise<void>;
  start?(): Promise<void>;
  stop?(): Promise<void>;
}
