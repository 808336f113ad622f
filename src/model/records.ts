/**
 * The records: small versioned pieces of state. A change carries the whole after-image of one record and the
 * cause of the change, so that replaying it needs no interpretation.
 *
 * Absent fields are `undefined` rather than missing: every record of a kind then has one shape in memory, and
 * JSON drops them on disk. The spec of a job alone leaves them out: it has many fields, of which most jobs give few.
 */

import type { Cause, KillWhy, WorkerReason } from './causes.ts';
import type { ErrorInfo } from './errors.ts';
import type { JobSpec } from './job-spec.ts';
import type { AttemptState, JobState, WorkerRecordState } from './states.ts';

export type JobClass = JobSpec['priority'];

/** What to do with a job whose executor has forgotten its attempt. */
export type OnUnknown = NonNullable<JobSpec['on_unknown']>;

/**
 * Names a body that is kept behind the store, written once and never changed. A JSON value of which only the store
 * that made it knows the rest.
 */
export interface BlobRef {
  readonly bytes: number;
}

/** A payload or result: its JSON text when small, else a reference to a blob. */
export type Body = string | BlobRef;

/** Bodies up to this size travel inside their record. */
export const INLINE_BODY_BYTES = 4096;

export type Labels = Readonly<Record<string, string>>;

/** What was asked: written once at admission. */
export interface AskRecord {
  readonly v: 2;
  readonly id: string;
  readonly tenant: string;
  /** The place in the order of admission: the sequence number of this record. */
  readonly n: number;
  readonly createdAt: number;
  /** The token, or the program, that handed it in; `spec.agent` is for whom. */
  readonly submittedBy: string;
  /** What the caller asked for; `spec.model` is the id of the model, whichever of its names was used. */
  readonly spec: JobSpec;
  readonly payload: Body;
  readonly payloadBytes: number;
  /** What `spec.model` stood for when the job was admitted: the lane waits for this. */
  readonly modelRef: string | undefined;
  /** The context that it needs at least, rounded up; undefined where any will do. */
  readonly contextTokens: number | undefined;
  /** Of the prompt and the answer together, as far as could be told: reserved until the real number is known. */
  readonly tokens: number | undefined;
  /** The jobs above it, from the root down to its parent: a cancel of any of them takes it along. */
  readonly ancestors: readonly string[] | undefined;
  /** Set when the caller chose the id: the hash of the body, so that a repeat can be told from a conflict. */
  readonly hash: string | undefined;
  readonly correlationId: string | undefined;
}

export type DeadReason = 'failed' | 'dropped' | 'expired' | 'killed';

export interface CancelRequest {
  readonly at: number;
  readonly by: string;
}

/** Where a job stands: rewritten at every move. */
export interface JobRecord {
  readonly v: 1;
  readonly state: JobState;
  /** The number of the last attempt; only grows. */
  readonly attempt: number;
  /** Tries spent of the retry budget. */
  readonly tries: number;
  readonly notBefore: number | undefined;
  /** When it was given a new life: its deadline counts from then. */
  readonly redrivenAt: number | undefined;
  readonly cancel: CancelRequest | undefined;
  readonly backend: string | undefined;
  readonly startedAt: number | undefined;
  readonly endedAt: number | undefined;
  readonly error: ErrorInfo | undefined;
  readonly reason: DeadReason | undefined;
  readonly result: Body | undefined;
}

export interface KillOrder {
  readonly why: KillWhy;
  readonly at: number;
}

/** One start of a job on one backend. */
export interface AttemptRecord {
  readonly v: 1;
  readonly job: string;
  readonly n: number;
  readonly backend: string;
  /** The executor's registry at the time of the intent: another one later means that it may have forgotten. */
  readonly registry: string | undefined;
  readonly state: AttemptState;
  /** The epoch that last confirmed where this attempt stands; an older one must ask the executor first. */
  readonly epoch: number;
  readonly at: number;
  readonly acceptedAt: number | undefined;
  readonly endedAt: number | undefined;
  readonly outcome: 'succeeded' | 'failed' | 'cancelled' | undefined;
  readonly error: ErrorInfo | undefined;
  readonly kill: KillOrder | undefined;
}

/** Ended attempts that are kept of a job: one that is turned away busy again and again makes many. */
export const PAST_ATTEMPTS = 16;

/** A key that failed for good and is refused until then. */
export interface FailureRecord {
  readonly v: 1;
  readonly until: number;
  readonly error: ErrorInfo;
}

/** Facts about the brain itself. */
export interface BrainRecord {
  readonly v: 1;
  /** Made at the first opening of the store. */
  readonly owner: string;
  /** Grows with every leader. */
  readonly epoch: number;
  /** The highest attempt number of any purged job whose id its caller chose: such an id may come back. */
  readonly attemptFloor: number;
}

/** A time-limited right to a resource, kept alive by heartbeats; or, without a time, the node that a backend is at. */
export interface LeaseRecord {
  readonly v: 1;
  readonly tenant: string;
  /** Who holds it: an agent, or a node. */
  readonly agent: string;
  /** The device; none where it may only use the CPU. */
  readonly gpuIndex: number | undefined;
  readonly minMemoryMb: number;
  /** Grows with every grant: a resource refuses whoever comes with a lower one than it has seen. */
  readonly fence: number;
  readonly grantedAt: number;
  readonly ttlMs: number | undefined;
  readonly heartbeatAt: number;
  /** As of the last heartbeat that was written. */
  readonly expiresAt: number | undefined;
  /** Of a backend: the memory of the executor that is meant. */
  readonly registry: string | undefined;
}

/** A model that can be asked for. */
export interface ModelRecord {
  readonly v: 1;
  readonly id: string;
  readonly name: string;
  /** Where it is, with its revision and file pinned. */
  readonly ref: string;
  readonly aliases: readonly string[];
  readonly sizeBytes: number;
  /** What a worker with it takes of a device. */
  readonly vramBytes: number;
  /** Nobody has said so: a worker that turns out to need more may have it where there is room. */
  readonly vramGuessed: true | undefined;
  readonly contextLength: number;
  readonly state: 'active' | 'retired';
  /** Jobs that one worker runs at a time; its engine decides where it is not said. */
  readonly slots: number | undefined;
  readonly sha256: string | undefined;
  readonly signature: string | undefined;
  readonly publicKey: string | undefined;
  readonly verified: Verification | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What an operator says of a model. */
export type ModelRegistration = Omit<ModelRecord, 'v' | 'state' | 'verified' | 'createdAt' | 'updatedAt'>;

export interface Verification {
  readonly at: number;
  readonly pool: string;
  readonly verdict: 'pass' | 'warn' | 'fail';
  readonly sha256: string;
}

/** A conversation. */
export interface SessionRecord {
  readonly v: 1;
  readonly tenant: string;
  readonly id: string;
  readonly createdAt: number;
  readonly usedAt: number;
  readonly turns: number;
  readonly tokensUsed: number;
  readonly tokenBudget: number | undefined;
  /** The backend that ran its last job, and has its context. */
  readonly backend: string | undefined;
}

/** What an operator has ordered of a pool. */
export interface PoolRecord {
  readonly v: 1;
  readonly draining: true | undefined;
  /** When what still runs there is ended. */
  readonly drainBy: number | undefined;
  /** The model that a worker is to be started with, once those that were there have gone. */
  readonly reload: string | undefined;
  readonly by: string;
  readonly at: number;
}

/** A worker as it should be; the record goes when its pool no longer shows it. */
export interface WorkerRecord {
  readonly v: 2;
  readonly pool: string;
  readonly device: number;
  readonly modelRef: string;
  readonly vramBytes: number;
  readonly vramGuessed: true | undefined;
  readonly slots: number | undefined;
  readonly contextLength: number | undefined;
  readonly state: WorkerRecordState;
  /** The memory of the pool manager that has shown it: of another one, silence means nothing. */
  readonly registry: string | undefined;
  /** When it came to this state, and why. */
  readonly at: number;
  readonly why: WorkerReason;
  /** Which start of this model it is, since one was ready. */
  readonly tries: number;
}

/** When jobs for a model come, as far as was seen. */
export interface DemandRecord {
  readonly v: 1;
  readonly at: number;
  readonly pattern: unknown;
}

/** Limits that were set at run time; they take the place of the configured ones. */
export interface LimitsRecord {
  readonly v: 1;
  readonly by: string;
  readonly at: number;
  readonly limits: readonly LimitSpec[];
}

/** Numbers of one scope; what is not given is not limited. */
export interface LimitSpec {
  /**
   * `global`, `tenant:<t>`, `agent:<t>/<principal>`, `token:<name>`, `session:<t>/<id>`, `model:<name>`,
   * `pool:<name>`. With `*` as its last part (`agent:*`, `agent:<t>/*`) each scope that it matches has these
   * numbers for itself. The most exact limit that matches a scope is the one that holds for it.
   */
  readonly scope: string;
  readonly requestsPerSec?: number | undefined;
  readonly tokensPerSec?: number | undefined;
  /** One second's worth unless given, and at least one request. */
  readonly burstRequests?: number | undefined;
  readonly burstTokens?: number | undefined;
  /** Reservations open at once. */
  readonly concurrency?: number | undefined;
  /** Tokens in all; never refills. */
  readonly tokenBudget?: number | undefined;
}

/** What a scope that may have a token budget has used in jobs that are over. */
export interface SpentRecord {
  readonly v: 1;
  readonly tokens: number;
  readonly at: number;
}

/** Records that belong to no job and are few: every store keeps them alike. */
export interface KeptKinds {
  readonly model: ModelRecord;
  readonly session: SessionRecord;
  readonly pool: PoolRecord;
  readonly worker: WorkerRecord;
  readonly demand: DemandRecord;
  readonly limits: LimitsRecord;
  readonly spent: SpentRecord;
}

export type KeptKind = keyof KeptKinds;
export const KEPT_KINDS = [
  'model',
  'session',
  'pool',
  'worker',
  'demand',
  'limits',
  'spent',
] as const satisfies KeptKind[];

export const isKept = (kind: string): kind is KeptKind => (KEPT_KINDS as readonly string[]).includes(kind);

export interface RecordKinds extends KeptKinds {
  readonly ask: AskRecord;
  readonly job: JobRecord;
  readonly attempt: AttemptRecord;
  readonly failure: FailureRecord;
  readonly brain: BrainRecord;
  readonly lease: LeaseRecord;
}

export type RecordKind = keyof RecordKinds;

/** `after` is null where the record is removed. */
export type Change = ChangeOf<RecordKind>;

export type KeptChange = ChangeOf<KeptKind>;

type ChangeOf<Kinds extends RecordKind> = {
  [K in Kinds]: {
    readonly kind: K;
    readonly id: string;
    readonly after: RecordKinds[K] | null;
    readonly cause: Cause;
  };
}[Kinds];

export const BRAIN_ID = 'brain';
export const DEFAULT_TENANT = 'default';

/** The name of a job inside the system: its id, qualified by its tenant unless that is the default one. */
export function uidOf(tenant: string, id: string): string {
  return tenant === DEFAULT_TENANT ? id : `${tenant}~${id}`;
}

export function tokenOf(uid: string, attempt: number): string {
  return `${uid}:${attempt}`;
}

export function jobOfToken(token: string): string {
  return token.slice(0, token.lastIndexOf(':'));
}

/** A kept record by one name. */
export const keptName = (kind: KeptKind, id: string): string => `${kind}/${id}`;

/** A key or session of a tenant. They may be any text, so the tenant always stands before them. */
export const scoped = (tenant: string, name: string): string => `${tenant}~${name}`;

export const bodyBytes = (body: Body): number =>
  typeof body === 'string' ? Buffer.byteLength(body) : body.bytes;
