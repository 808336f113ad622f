/**
 * The records: small versioned pieces of state. A change carries the whole after-image of one record and the
 * cause of the change, so that replaying it needs no interpretation.
 *
 * Absent fields are `undefined` rather than missing: every record of a kind then has one shape in memory, and
 * JSON drops them on disk.
 */

import type { ErrorInfo } from './errors.ts';
import type { AttemptState, JobState } from './states.ts';

export type JobClass = 'interactive' | 'batch';
export const JOB_CLASSES = ['interactive', 'batch'] as const satisfies readonly JobClass[];

/** What to do with a job whose executor has forgotten its attempt. */
export type OnUnknown = 'hold' | 'retry' | 'fail';

/** Bytes kept behind the store; written once, never changed. */
export interface BlobRef {
  readonly file: number;
  readonly offset: number;
  readonly bytes: number;
  readonly crc: number;
}

/** A payload or result: its JSON text when small, else a reference to a blob. */
export type Body = string | BlobRef;

/** Bodies up to this size travel inside their record. */
export const INLINE_BODY_BYTES = 4096;

export type Labels = Readonly<Record<string, string>>;

/** What was asked: written once at admission. */
export interface AskRecord {
  readonly v: 1;
  readonly id: string;
  readonly tenant: string;
  /** The place in the order of admission: the sequence number of this record. */
  readonly n: number;
  readonly createdAt: number;
  readonly principal: string;
  readonly submittedBy: string;
  readonly type: string;
  readonly class: JobClass;
  readonly score: number;
  readonly weight: number;
  readonly maxTries: number;
  readonly payload: Body;
  readonly payloadBytes: number;
  readonly key: string | undefined;
  readonly kind: string | undefined;
  readonly model: string | undefined;
  readonly labels: Labels | undefined;
  readonly session: string | undefined;
  readonly parallel: true | undefined;
  readonly notBefore: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly parent: string | undefined;
  /** The jobs above it, from the root down to its parent: a cancel of any of them takes it along. */
  readonly ancestors: readonly string[] | undefined;
  readonly onUnknown: OnUnknown | undefined;
  /** Whether the job ends with the last of those who follow it; by its class where it is not said. */
  readonly onDisconnect: 'cancel' | 'continue' | undefined;
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

export type KillWhy = 'cancel' | 'timeout' | 'deadline' | 'busy' | 'refused' | 'lost';

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

export interface RecordKinds {
  readonly ask: AskRecord;
  readonly job: JobRecord;
  readonly attempt: AttemptRecord;
  readonly failure: FailureRecord;
  readonly brain: BrainRecord;
  readonly lease: LeaseRecord;
}

export type RecordKind = keyof RecordKinds;

/** Why a change happened: shown in the audit trail. */
export type Cause = string;

/** `after` is null where the record is removed. */
export type Change = {
  [K in RecordKind]: {
    readonly kind: K;
    readonly id: string;
    readonly after: RecordKinds[K] | null;
    readonly cause: Cause;
  };
}[RecordKind];

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

/** A key or session of a tenant. They may be any text, so the tenant always stands before them. */
export const scoped = (tenant: string, name: string): string => `${tenant}~${name}`;

export const bodyBytes = (body: Body): number =>
  typeof body === 'string' ? Buffer.byteLength(body) : body.bytes;
