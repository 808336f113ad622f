/**
 * The records: small versioned pieces of state. A change carries the whole after-image of one record and the
 * cause of the change, so that replaying it needs no interpretation.
 * Absent fields are `undefined` rather than missing, so that every record of a kind has one shape in memory; JSON drops them
 * on disk. The spec of a job alone leaves them out: it has many fields, of which most jobs give few.
 */
import type { BatchRecord } from './batch-record.ts';
import type { Body } from './body.ts';
import type { Cause, KillWhy, WorkerReason } from './causes.ts';
import type { AttemptHolder, ConsumerRecord, FencedResult } from './consumer-record.ts';
import type { DemandRecord } from './demand-record.ts';
import type { FailedDependencyRecord } from './dependency-record.ts';
import type { Disagreement } from './disagreement.ts';
import type { ErasureRecord } from './erasure-record.ts';
import type { ErrorInfo } from './errors.ts';
import type { GovernanceRecord } from './governance.ts';
import type { JobSpec } from './job-spec.ts';
import type { LeaseRecord } from './lease-record.ts';
import type { LimitsRecord, SpentRecord } from './limit-records.ts';
import type { McpPinRecord, McpTaskRecord } from './mcp-records.ts';
import type { ModuleRecord } from './module-record.ts';
import type { PolicyRecord } from './policy.ts';
import type { PoolRecord } from './pool-record.ts';
import type { Bill, PricesRecord } from './price.ts';
import type { Reconciled } from './reconciled.ts';
import type { RoutePlace, RouteRecord } from './route.ts';
import type { ScheduleRecord } from './schedule.ts';
import type { SessionRecord } from './session-record.ts';
import type { AttemptState, JobState, WorkerRecordState } from './states.ts';
import type { Trace } from './trace.ts';
import type { TokenCounts } from './usage.ts';
import type { WaitRecord, WaitStateRecord } from './waiting.ts';
import type { WorkerPoolRecord } from './worker-pool-record.ts';
import type { Opening } from './worker-wire.ts';

export type JobClass = JobSpec['priority'];

/** What to do with a job whose executor cannot tell whether the attempt ran. */
export type OnUnknown = NonNullable<JobSpec['on_unknown']>;

export type Labels = Readonly<Record<string, string>>;

/** The request for a job: written once at admission, never changed. */
export interface AskRecord {
  readonly v: 2;
  readonly id: string;
  readonly tenant: string;
  /** The sequence number of this record: the order of admission. */
  readonly n: number;
  /** The `n` of the job at the top of its ancestors, at whose place it stands in line; undefined without ancestors. */
  readonly line?: number | undefined;
  readonly createdAt: number;
  /** The API token, or the program, that submitted the job; `spec.agent` is the agent that it was submitted for. */
  readonly submittedBy: string;
  /** The caller's options. `spec.model` is the id of the model, even if an alias was used. */
  readonly spec: JobSpec;
  readonly payload: Body;
  readonly payloadBytes: number;
  /** The exact reference of the model when the job was admitted; only backends with it can run the job. */
  readonly modelRef: string | undefined;
  /**
   * The context length that the job needs, rounded up to a power of two (at most the model's own length), so that
   * similar jobs share a lane; undefined if every worker has enough.
   */
  readonly contextTokens: number | undefined;
  /** The estimated tokens of prompt and answer: reserved until the real number is known. */
  readonly tokens: number | undefined;
  /** The most tokens of the answer that the caller allows; undefined without a bound. */
  readonly maxOutput?: number | undefined;
  /** The number of messages of an inference. */
  readonly messages?: number | undefined;
  /** The number of images of an inference, if it has some. */
  readonly images?: number | undefined;
  /** The route that the caller named instead of a model. */
  readonly route?: string | undefined;
  /** The ids of its ancestors, from the root down to the parent: a cancel of any of them cancels this job too. */
  readonly ancestors: readonly string[] | undefined;
  /** The agents of the runs above it, which may have left memory; undefined without any, and for the calls of a run. */
  readonly agentsAbove?: readonly string[] | undefined;
  /** The hash of the body, set only when the caller chose the id: it distinguishes a repeat from a conflict. */
  readonly hash: string | undefined;
  readonly correlationId: string | undefined;
  /** The trace that the job is part of; undefined if its caller named none. */
  readonly trace?: Trace | undefined;
}

export type DeadReason = 'failed' | 'dropped' | 'expired' | 'killed' | 'dependency';

export interface CancelRequest {
  readonly at: number;
  readonly by: string;
}

/** Somebody has paused the job: neither it nor any job below it starts an attempt until it is resumed. */
export interface PauseRequest {
  readonly at: number;
  readonly by: string;
}

/** The state of a job: rewritten at every move. */
export interface JobRecord {
  readonly v: 2;
  readonly state: JobState;
  /** The number of the last attempt; only grows. */
  readonly attempt: number;
  /** How many tries of `max_tries` are used up. */
  readonly tries: number;
  /** When a retry may start at the earliest. */
  readonly notBefore: number | undefined;
  /** When the job was last redriven: its deadline counts from then. Also set when brain time was set back. */
  readonly redrivenAt: number | undefined;
  /** The request to cancel the job, recorded at once; the job ends when its attempt has ended. */
  readonly cancel: CancelRequest | undefined;
  readonly backend: string | undefined;
  readonly startedAt: number | undefined;
  readonly endedAt: number | undefined;
  readonly error: ErrorInfo | undefined;
  /** Why the job is dead. */
  readonly reason: DeadReason | undefined;
  readonly result: Body | undefined;
  /** Where the job is in its route; undefined without one. */
  readonly place?: RoutePlace | undefined;
  /** What the job waits for or, after that, what it goes on with; undefined if it has never waited. */
  readonly wait?: WaitRecord | undefined;
  /** Set while the job is paused. Jobs below it follow from this record alone. */
  readonly paused?: PauseRequest | undefined;
}

export interface KillOrder {
  readonly why: KillWhy;
  readonly at: number;
}

/** One start of a job on one backend. */
export interface AttemptRecord {
  readonly v: 3;
  /** The uid of the job. */
  readonly job: string;
  /** The number of the attempt, part of its token. */
  readonly n: number;
  readonly backend: string;
  /** The executor's registry when the attempt was recorded: if it has changed since, the executor may have forgotten. */
  readonly registry: string | undefined;
  readonly state: AttemptState;
  /** The epoch that last confirmed the state of the attempt; a newer epoch must inspect the executor first. */
  readonly epoch: number;
  /** When the attempt was recorded. */
  readonly at: number;
  readonly acceptedAt: number | undefined;
  readonly endedAt: number | undefined;
  /** `turned_away`: the provider behind the backend has done nothing for it. `waits`: its job waits now. */
  readonly outcome: 'succeeded' | 'failed' | 'cancelled' | 'turned_away' | 'waits' | undefined;
  readonly error: ErrorInfo | undefined;
  readonly kill: KillOrder | undefined;
  /** Nothing is sent to its backend: a consumer claims the attempt, and may begin only after that. */
  readonly isPulled?: true | undefined;
  /** The consumer that has claimed it. */
  readonly holder?: AttemptHolder | undefined;
  /** The executor does not run it any more, and cannot say what became of it: it uses no slot. */
  readonly isGone?: true | undefined;
  /** The tokens of the attempt, as its backend counted them, however it ended. */
  readonly usage?: TokenCounts | undefined;
  /** What it may cost, and has cost when it is closed; undefined where its model has no price. */
  readonly bill?: Bill | undefined;
  /** The model that it was started for, where the route of its job has chosen it. */
  readonly model?: string | undefined;
  /** The longest answer, in tokens, that the mode of governance allowed when it was claimed; undefined without a bound. */
  readonly maxTokens?: number | undefined;
  /** What the execution says of its work, for telemetry alone; undefined where it says nothing. */
  readonly label?: string | undefined;
}

/** The ended attempts that are kept of each job: one that finds its backends busy again and again has many. */
export const PAST_ATTEMPTS = 16;

/** A key whose job failed for good: submits with the key are refused until `until`. */
export interface FailureRecord {
  readonly v: 1;
  readonly until: number;
  readonly error: ErrorInfo;
}

/** Facts about the brain itself. */
export interface BrainRecord {
  readonly v: 1;
  /** Random id made when the store is first opened; executors tell the brains of different stores apart by it. */
  readonly owner: string;
  /** The owner of the store of which this one is a copy; undefined in a store that never was one. */
  readonly firstOwner?: string | undefined;
  /** Raised by one each time a brain opens the store. */
  readonly epoch: number;
  /** Made at random for this opening; see Commander. */
  readonly nonce?: string | undefined;
  /** The backends that know another copy of this store, until it is said to be one. */
  readonly disagreements?: readonly Disagreement[] | undefined;
  /** Nothing is purged until a brain has run for so long: the clock has jumped ahead (T5 of brain-clock.ts). */
  readonly purgeRestMs?: number | undefined;
  /** The last reconciliation; earlier ones are in the audit trail. */
  readonly reconciled?: Reconciled | undefined;
  /** The last result that was refused because its consumer did not hold the attempt. */
  readonly fenced?: FencedResult | undefined;
  /** The last openings before this one, newest first: an executor that knows another one knows another copy. */
  readonly openings?: readonly Opening[] | undefined;
  /**
   * Highest attempt number among purged jobs whose id the caller chose. If such an id is submitted again, its attempts
   * start above this, so that no token repeats.
   */
  readonly attemptFloor: number;
}

/** The owner by which a log is known, also in a copy of its store, which goes on under another owner. */
export const logOwner = ({ firstOwner, owner }: BrainRecord): string => firstOwner ?? owner;

/** A model of the catalog. */
export interface ModelRecord {
  readonly v: 1;
  readonly id: string;
  readonly name: string;
  /** The exact reference, with revision and file pinned; see model-ref.ts. */
  readonly ref: string;
  readonly aliases: readonly string[];
  readonly sizeBytes: number;
  /** The device memory that a worker with this model takes. */
  readonly vramBytes: number;
  /** `vramBytes` is an estimate: a worker that needs more may take it if there is room. */
  readonly vramGuessed: true | undefined;
  readonly contextLength: number;
  readonly state: 'active' | 'retired';
  /** Jobs that one worker runs at a time; undefined leaves it to the engine. */
  readonly slots: number | undefined;
  readonly sha256: string | undefined;
  /** The Ed25519 signature of the 32 bytes of the file's sha256, in base64. */
  readonly signature: string | undefined;
  /** The 32 bytes of the public key, in base64. */
  readonly publicKey: string | undefined;
  readonly verified: Verification | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The fields of a model that an operator registers. */
export type ModelRegistration = Omit<ModelRecord, 'v' | 'state' | 'verified' | 'createdAt' | 'updatedAt'>;

export interface Verification {
  readonly at: number;
  readonly pool: string;
  readonly verdict: 'pass' | 'warn' | 'fail';
  readonly sha256: string;
}

/** The desired state of a worker; deleted when its pool no longer reports it. */
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
  /**
   * The registry of the pool manager that reported the worker. If the manager now reports another registry, it has lost
   * its records: a worker missing from its report may still be alive.
   */
  readonly registry: string | undefined;
  /** When the worker entered `state`. */
  readonly at: number;
  /** Why the worker was started or, if it is draining or stopping, why. */
  readonly why: WorkerReason;
  /** Starts of this model in a row of which none has become ready, this one included. */
  readonly tries: number;
  /** The worker pool for which it is kept: it is neither unloaded nor evicted until that gives it up. */
  readonly workerPool?: string | undefined;
}

/** The small record kinds: they belong to no job and are few; stores treat them all alike (docs/decisions/0014). */
export interface SmallKinds {
  readonly model: ModelRecord;
  readonly session: SessionRecord;
  readonly pool: PoolRecord;
  readonly worker: WorkerRecord;
  readonly demand: DemandRecord;
  readonly limits: LimitsRecord;
  readonly spent: SpentRecord;
  readonly prices: PricesRecord;
  readonly route: RouteRecord;
  readonly batch: BatchRecord;
  readonly failed_dependency: FailedDependencyRecord;
  readonly erasure: ErasureRecord;
  readonly wait_state: WaitStateRecord;
  readonly schedule: ScheduleRecord;
  readonly module: ModuleRecord;
  readonly governance: GovernanceRecord;
  readonly policy: PolicyRecord;
  readonly mcp_pin: McpPinRecord;
  readonly mcp_task: McpTaskRecord;
  readonly consumer: ConsumerRecord;
  readonly worker_pool: WorkerPoolRecord;
}

export type SmallKind = keyof SmallKinds;
export const SMALL_KINDS = [
  'model',
  'session',
  'pool',
  'worker',
  'demand',
  'limits',
  'spent',
  'prices',
  'route',
  'batch',
  'failed_dependency',
  'erasure',
  'wait_state',
  'schedule',
  'module',
  'governance',
  'policy',
  'mcp_pin',
  'mcp_task',
  'consumer',
  'worker_pool',
] as const satisfies SmallKind[];

export const isSmallKind = (kind: string): kind is SmallKind =>
  (SMALL_KINDS as readonly string[]).includes(kind);

export interface RecordKinds extends SmallKinds {
  readonly ask: AskRecord;
  readonly job: JobRecord;
  readonly attempt: AttemptRecord;
  readonly failure: FailureRecord;
  readonly brain: BrainRecord;
  readonly lease: LeaseRecord;
}

export type RecordKind = keyof RecordKinds;

/** The after-image of one record, or null if the record is deleted. */
export type Change = ChangeOf<RecordKind>;

export type SmallChange = ChangeOf<SmallKind>;

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
export const TENANT = '^[a-z0-9][a-z0-9_-]{0,63}$';

/** The internal id of a job: its id, prefixed by its tenant unless that is the default one. */
export const uidOf = (tenant: string, id: string): string =>
  tenant === DEFAULT_TENANT ? id : `${tenant}~${id}`;

export const tokenOf = (uid: string, attempt: number): string => `${uid}:${attempt}`;

export const jobOfToken = (token: string): string => token.slice(0, token.lastIndexOf(':'));

/** The key of a small record among those of all kinds. */
export const smallRecordName = (kind: SmallKind, id: string): string => `${kind}/${id}`;

/** A key or session prefixed by its tenant. They may be any text, so even the default tenant is written. */
export const scoped = (tenant: string, name: string): string => `${tenant}~${name}`;
