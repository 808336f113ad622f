/** The port to the store of the brain's records. Implementations live outside of core (docs/decisions/0018). */

import type { BlobRef } from '../../model/body.ts';
import type {
  AskRecord,
  AttemptRecord,
  Change,
  JobRecord,
  Labels,
  RecordKind,
  RecordKinds,
} from '../../model/records.ts';
import type { SessionKeys } from './keys.ts';
import type { LedgerReads } from './ledger.ts';
import type { SessionArchive } from './sessions.ts';

export type Seq = number;

/** A job with its attempts, as checkpoints and the history store it. */
export interface JobBundle {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  /** In order of their numbers; the last PAST_ATTEMPTS of them and the open one. */
  readonly attempts: readonly AttemptRecord[];
  /** The sequence number of the last change to the job or its attempts. */
  readonly seq: Seq;
}

/** A job from the history; `attempts` only where they were requested. */
export type EndedJob = Pick<JobBundle, 'ask' | 'job'> & Partial<Pick<JobBundle, 'attempts'>>;

export interface HistoryQuery {
  readonly tenant: string;
  readonly states?: readonly string[];
  readonly type?: string;
  readonly session?: string;
  readonly key?: string;
  readonly principal?: string;
  readonly batch?: string;
  /** The id of a topmost job: only jobs below it, at any depth. */
  readonly root?: string;
  /** Only jobs with all of these tags. */
  readonly tags?: Labels;
  /** Only jobs admitted before this sequence number. */
  readonly before?: number;
  /** Only jobs admitted after this sequence number. */
  readonly after?: number;
  /** Newest first, unless this says otherwise. */
  readonly order?: 'oldest first';
  readonly limit: number;
}

/** Whether a job matches the query; `limit` aside. */
export function isAskedFor(query: HistoryQuery, ask: AskRecord, job: JobRecord): boolean {
  if (ask.tenant !== query.tenant) return false;
  if (query.before !== undefined && ask.n >= query.before) return false;
  if (query.after !== undefined && ask.n <= query.after) return false;
  if (query.states && !query.states.includes(job.state)) return false;
  if (query.type !== undefined && ask.spec.type !== query.type) return false;
  if (query.session !== undefined && ask.spec.session_id !== query.session) return false;
  if (query.key !== undefined && ask.spec.key !== query.key) return false;
  if (query.batch !== undefined && ask.spec.batch !== query.batch) return false;
  if (query.root !== undefined && ask.ancestors?.[0] !== query.root) return false;
  if (query.tags && !hasTags(ask.spec.tags, query.tags)) return false;
  return query.principal === undefined || ask.spec.agent === query.principal;
}

/** Whether all `wanted` tags are among these. */
export function hasTags(tags: Labels | undefined, wanted: Labels): boolean {
  for (const name of Object.keys(wanted)) if (tags?.[name] !== wanted[name]) return false;
  return true;
}

/** Reads of ended jobs from the history, which is an index derived from the records. */
export interface HistoryReads {
  get(uid: string): Promise<JobBundle | undefined>;
  list(query: HistoryQuery): Promise<JobBundle[]>;
  /** At most `limit` jobs of all tenants whose uid is at least `from` and less than `below`, the highest uid first. */
  between(from: string, below: string, limit: number): Promise<JobBundle[]>;
  count(): Promise<number>;
}

export interface PurgePlan {
  readonly jobs: number;
  /** The highest attempt number of the purged jobs whose id their caller chose. */
  readonly attemptFloor: number;
  /** The purged jobs that are below another job. */
  readonly below: readonly JobBelow[];
}

/** An ended job below others, which may still need its result. */
export interface JobBelow {
  readonly uid: string;
  /** The uids of its ancestors, from the root down to the parent. */
  readonly ancestors: readonly string[];
  /** When its root ended, if that is in the history; it may also be live, or purged. */
  readonly rootEndedAt: number | undefined;
}

/** A job that a purge passes over: its time in the history counts from this instant. */
export interface KeptJob {
  readonly uid: string;
  readonly from: number;
}

type LooseKind = Exclude<RecordKind, 'ask' | 'job' | 'attempt'>;

/** A record that belongs to no job. */
export type LooseRecord = {
  [K in LooseKind]: { readonly kind: K; readonly id: string; readonly after: RecordKinds[K] };
}[LooseKind];

/** Receives the content of a store while it opens: records first, then the changes made after them. */
export interface Recovery {
  /** In any order, each job once. */
  job(bundle: JobBundle): void;
  /** Failures in the order in which they were written, the others in any order. */
  record(record: LooseRecord): void;
  /** A change that the records do not include yet, with its sequence number. */
  change(change: Change, seq: Seq): void;
}

export interface Recovered {
  /** The sequence number of the last durable change. */
  readonly seq: Seq;
  /** The instant of the last commit; an earlier commit may have a later one, since brain time can be set back. */
  readonly at: number;
  /** Every job that had ended at or before this change is in the history, or was purged from it. */
  readonly indexedUpTo: Seq;
  /** How far this machine's clock is behind the store's, if the store has a clock of its own. */
  readonly skewMs?: number;
  /** The names of files with bodies that jobs refer to and that are missing, if the store keeps bodies in files. */
  readonly missingBlobFiles?: readonly string[];
}

/** Called by the store; never before the reported fact is true. */
export interface StoreEvents {
  /** Every change up to `seq` is on stable storage. */
  durable(seq: Seq): void;
  /** These ended jobs are in the history, in the version of change `seq`: they may leave memory. */
  indexed(jobs: readonly { readonly uid: string; readonly seq: Seq }[]): void;
  /** The disk has become full, or has room again. */
  space(full: boolean): void;
  /** No write will ever succeed again: discard the engine. */
  failed(error: Error): void;
  /**
   * The request of a job in the engine's memory. A store asks for it when an attempt of the job is closed, to derive the
   * charge: the record of the attempt does not say for whom it was.
   */
  ask(uid: string): AskRecord | undefined;
}

/** How long a blob is needed, where records do not say it. */
export interface BlobTies {
  /** The blobs that its text is composed of: they are kept as long as this one. */
  readonly needs?: readonly BlobRef[];
  /**
   * The blob is only a part of others. It is kept as long as its owner: the topmost job of a run, until that is purged,
   * or a session.
   */
  readonly owner?: BlobOwner;
}

export type BlobOwner = { readonly job: string } | { readonly session: string };

export interface StoreCapabilities {
  /** `exclusive`: a second opener is refused. `epoch`: it is admitted, and the first one is fenced. */
  readonly secondOpener: 'exclusive' | 'epoch';
}

export interface Store {
  readonly capabilities: StoreCapabilities;
  /** Passes all durable content to `into`; whatever is passed on stays durable. */
  open(events: StoreEvents, now: number, into: Recovery): Promise<Recovered>;
  /** Whether this process still owns the store: false when another one may have opened it since. */
  holds(): boolean;
  /** Appends changes in order; returns the last sequence number. Synchronous and bounded; a failure is final. */
  append(changes: readonly Change[], now: number): Seq;
  /** Too many bytes wait for the disk: new jobs are refused. */
  readonly overloaded: boolean;
  /** Settles when the text is durable; only then may a record name the blob. */
  putBlob(text: string, ties?: BlobTies): Promise<BlobRef>;
  /** The text in UTF-8: it is sent as it is, or decoded by whoever needs the text. */
  readBlob(ref: BlobRef): Promise<Buffer>;
  /** True where the blobs that this one needs lie so far apart that their text should be written anew. */
  isScattered(ref: BlobRef): boolean;
  /** The keys with which the bodies of sessions are sealed. */
  readonly keys: SessionKeys;
  readonly history: HistoryReads;
  /** The charges of all closed attempts, also of those that jobs no longer list and of jobs that were purged. */
  readonly ledger: LedgerReads;
  /** Sessions that have left memory. */
  readonly sessions: SessionArchive;
  /**
   * Adds ended jobs to the history, once their end is durable. `upTo`: every job that ended at or before this change has
   * been passed to `index`, now or earlier; the history's watermark never passes it.
   */
  index(ended: readonly JobBundle[], upTo: Seq): void;
  /** What `purge` with the same arguments will delete; the brain must make `attemptFloor` durable first. */
  planPurge(endedBefore: number, limit: number): Promise<PurgePlan>;
  /**
   * Deletes at most `limit` jobs that ended before `endedBefore`. `now` is brain time that can be believed: from now on the
   * age of the audit trail is judged by it, and by no other clock. `kept`: those of the planned jobs that are not deleted;
   * they count towards the limit.
   */
  purge(endedBefore: number, limit: number, now: number, kept?: readonly KeptJob[]): Promise<void>;
  /** Deletes at most `limit` charges that were settled before this instant; returns how many it has deleted. */
  dropCharges(settledBefore: number, limit: number): Promise<number>;
  checkpoint(): Promise<void>;
  close(): Promise<void>;
}
