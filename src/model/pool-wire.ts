/**
 * The protocol between the brain, a pool manager and its workers. A pool manager carries out orders: it starts, drains
 * and stops workers, and reports its devices and workers.
 */
import { type Static, Type } from 'typebox';

const optional = Type.Optional;
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Count = Type.Integer({ minimum: 0, maximum: 1_000_000_000 });
const open = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: true });
const closed = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: false });

export const POOL_NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$';
export const WORKER_NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$';

/** `busy` is `ready` with at least one running job. */
export const WORKER_STATUSES = ['starting', 'ready', 'busy', 'draining', 'failed'] as const;
export type WorkerStatus = (typeof WORKER_STATUSES)[number];

/**
 * What one pool may report: the brain handles a report in one turn. A manager that reports more is refused, and counts as
 * unreachable.
 */
export const MAX_POOL_WORKERS = 256;
const MAX_POOL_DEVICES = 64;
const MAX_LABELS = 64;
const Text = Type.String({ maxLength: 4096 });

export const DeviceState = open({
  id: Type.Integer({ minimum: 0, maximum: 1023 }),
  kind: optional(Type.Enum(['nvidia', 'cpu'])),
  name: optional(Text),
  total_vram: Bytes,
  /** The memory that its workers have, or have been allotted. */
  allocated_vram: Bytes,
  /** The memory that a new worker could get now; other programs may use the device too. */
  available_vram: Bytes,
  /** `ok` unless given. */
  status: optional(Type.Enum(['ok', 'error'])),
  /** Why the device cannot be used, if its status is `error`. */
  reason: optional(Text),
  workers: Type.Array(Text, { maxItems: MAX_POOL_WORKERS }),
});
export type DeviceState = Static<typeof DeviceState>;

export const WorkerState = open({
  id: Type.String({ pattern: WORKER_NAME }),
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  gpu: Type.Integer({ minimum: 0, maximum: 1023 }),
  vram_used: Bytes,
  /** The address of the worker; absent until it is ready. */
  uri: optional(Type.String({ maxLength: 1024 })),
  status: Type.Enum([...WORKER_STATUSES]),
  /** The error of a failed worker, with a code of model/errors.ts. */
  error: optional(open({ code: Text, message: Type.String() })),
  started_at: Text,
  ready_at: optional(Text),
  slots: optional(Count),
  context_length: optional(Count),
  /** The registry of the worker, see worker-wire.ts. Without it the brain asks the worker, at `GET /health`. */
  registry: optional(Text),
  /** Whether its executions cost money, so that one with an unknown outcome is not repeated unasked. */
  paid: optional(Type.Boolean()),
  /** The secret that callers of the worker must send; reported to the brain only. */
  token: optional(Text),
  /** Features beside plain text: `chat`, `embeddings`, `tools`, `json_schema`. */
  features: optional(Type.Array(Text, { maxItems: MAX_LABELS })),
});
export type WorkerState = Static<typeof WorkerState>;

/**
 * `GET /v2/state?after=VERSION&wait_ms=N` answers as soon as the version differs from `after`, or after `wait_ms`. A
 * worker whose process has ended is listed as `failed` until it is stopped.
 */
export const PoolState = open({
  pool_id: Type.String({ pattern: POOL_NAME }),
  /**
   * The id of the manager's data folder. If it has changed, a worker that is not listed may still be running. Without it,
   * a worker that is not listed is gone.
   */
  registry: optional(Type.String({ minLength: 1, maxLength: 4096 })),
  /**
   * Raised with every change of the state; never lower than before, even after a restart of the manager. A manager without
   * it is polled at intervals.
   */
  version: optional(Count),
  region: optional(Text),
  labels: optional(Type.Record(Type.String(), Text, { maxProperties: MAX_LABELS })),
  gpus: Type.Array(DeviceState, { maxItems: MAX_POOL_DEVICES }),
  workers: Type.Array(WorkerState, { maxItems: MAX_POOL_WORKERS }),
});
export type PoolState = Static<typeof PoolState>;

/** `POST /v2/workers/start`: idempotent by `worker_id`. */
export const StartWorker = closed({
  worker_id: optional(Type.String({ pattern: WORKER_NAME })),
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  gpu_id: Type.Integer({ minimum: 0, maximum: 1023 }),
  /** The device memory that the worker needs; by default estimated from the size of the file. */
  vram_bytes: optional(Bytes),
  slots: optional(Type.Integer({ minimum: 1, maximum: 1024 })),
  context_length: optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
  /** The time within which the worker must be ready. */
  timeout_ms: optional(Type.Integer({ minimum: 1, maximum: 86_400_000 })),
});
export type StartWorker = Static<typeof StartWorker>;
export const WorkerOrdered = open({ worker_id: Type.String(), status: Type.Enum([...WORKER_STATUSES]) });
export type WorkerOrdered = Static<typeof WorkerOrdered>;

/** `POST /v2/workers/stop`: the worker takes no new jobs and ends what runs. It is listed until its process is gone. */
export const StopWorker = closed({ worker_id: Type.String({ pattern: WORKER_NAME }) });
export type StopWorker = Static<typeof StopWorker>;
/** `POST /v2/workers/{id}/drain`: the worker takes no new jobs and finishes what runs, until `deadline_ms` is over. */
export const DrainWorker = closed({
  deadline_ms: optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
});

/** `POST /v2/internal/workers/ready`: sent by a worker once it listens, with the secret that it was started with. */
export const WorkerReady = open({
  worker_id: Type.String({ pattern: WORKER_NAME }),
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  uri: Type.String({ minLength: 1, maxLength: 1024 }),
  /** The device memory that the model takes, by the engine's own reckoning; absent where the engine cannot tell. */
  vram_bytes: optional(Bytes),
  slots: Type.Integer({ minimum: 1, maximum: 1024 }),
  context_length: Count,
  registry: Type.String({ minLength: 1 }),
  paid: optional(Type.Boolean()),
  features: optional(Type.Array(Type.String())),
});
export type WorkerReady = Static<typeof WorkerReady>;

/** `POST /v2/models/resolve`: the model with its revision and file pinned, as found on this machine. */
export const ResolveModel = closed({ model_ref: Type.String({ minLength: 1, maxLength: 1024 }) });
export const ResolvedModel = open({
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  size_bytes: Bytes,
  /** The context length that the model was trained for; a worker may have less. */
  context_length: optional(Count),
  kv_bytes_per_token: optional(Bytes),
  /** The default number of jobs that a worker of this pool runs at a time. */
  slots: optional(Count),
});
export type ResolvedModel = Static<typeof ResolvedModel>;

/**
 * `POST /v2/models/verify`: reads the file on this machine and answers with events: `progress {bytes, total}`, then `end`
 * with a VerifyResult or `error {code, message, retriable}`.
 */
export const VerifyModel = closed({
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  sha256: optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
  /** The Ed25519 signature of the 32 bytes of the file's sha256, in base64. */
  signature: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{86}==$' })),
  /** The 32 bytes of the public key, in base64. */
  public_key: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$' })),
});
export type VerifyModel = Static<typeof VerifyModel>;
export const VerifyResult = open({
  sha256: Type.String({ description: 'SHA-256 of the file that was read, in hexadecimal' }),
  size_bytes: Bytes,
  checksum: Type.Enum(['pass', 'fail', 'none'], {
    description: 'Whether the file has the registered sha256; "none" if none is registered',
  }),
  signature: Type.Enum(['pass', 'fail', 'none'], {
    description: 'Whether the registered signature is valid for the file; "none" if none is registered',
  }),
});
export type VerifyResult = Static<typeof VerifyResult>;

/** `POST /v2/pools/register` at the brain: sent at the start of a manager and repeated as a heartbeat. */
export const RegisterPool = closed({
  pool_id: Type.String({ pattern: POOL_NAME }),
  uri: Type.String({ minLength: 1, maxLength: 1024, description: 'Address of the pool manager' }),
  token: optional(
    Type.String({ maxLength: 256, description: 'Secret that the brain must send to this manager' }),
  ),
});
export type RegisterPool = Static<typeof RegisterPool>;
