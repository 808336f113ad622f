/**
 * What the brain, a pool manager and its workers say to each other. A pool manager carries out orders: it starts,
 * drains and stops workers, and says what there is.
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

/** `busy` is `ready` with something to do. */
export const WORKER_STATUSES = ['starting', 'ready', 'busy', 'draining', 'failed'] as const;
export type WorkerStatus = (typeof WORKER_STATUSES)[number];

export const DeviceState = open({
  id: Type.Integer({ minimum: 0, maximum: 1023 }),
  kind: Type.Enum(['nvidia', 'cpu']),
  name: Type.String(),
  total_vram: Bytes,
  /** What its workers have, or were promised. */
  allocated_vram: Bytes,
  /** What could be given out now; others may use the device too. */
  available_vram: Bytes,
  status: Type.Enum(['ok', 'error']),
  /** Why it cannot be used. */
  reason: optional(Type.String()),
  workers: Type.Array(Type.String()),
});
export type DeviceState = Static<typeof DeviceState>;

export const WorkerState = open({
  id: Type.String({ pattern: WORKER_NAME }),
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  gpu: Type.Integer({ minimum: 0, maximum: 1023 }),
  vram_used: Bytes,
  /** Where it is reached; absent until it is ready. */
  uri: optional(Type.String({ maxLength: 1024 })),
  status: Type.Enum([...WORKER_STATUSES]),
  /** Of one that failed: a code of the catalogue, and the text. */
  error: optional(open({ code: Type.String(), message: Type.String() })),
  started_at: Type.String(),
  ready_at: optional(Type.String()),
  slots: optional(Count),
  context_length: optional(Count),
  /** Of its memory of executions. */
  registry: optional(Type.String()),
  /** What its callers show: nobody but the brain is told. */
  token: optional(Type.String()),
  /** What it can do beside text: `chat`, `embeddings`, `tools`, `json_schema`. */
  features: optional(Type.Array(Type.String())),
});
export type WorkerState = Static<typeof WorkerState>;

/**
 * `GET /v2/state?after=VERSION&wait_ms=N` answers as soon as its version is not `after`, or when the time is over.
 * A worker whose process has ended is listed as `failed` until it is stopped, and then no longer.
 */
export const PoolState = open({
  pool_id: Type.String({ pattern: POOL_NAME }),
  /** The identity of its memory: of another one, silence about a worker means nothing. */
  registry: Type.String({ minLength: 1 }),
  version: Count,
  region: optional(Type.String()),
  labels: optional(Type.Record(Type.String(), Type.String())),
  gpus: Type.Array(DeviceState),
  workers: Type.Array(WorkerState),
});
export type PoolState = Static<typeof PoolState>;

/** `POST /v2/workers/start`: the same id again is the same worker. */
export const StartWorker = closed({
  worker_id: optional(Type.String({ pattern: WORKER_NAME })),
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  gpu_id: Type.Integer({ minimum: 0, maximum: 1023 }),
  /** What it will need; from the size of the file where it is not said. */
  vram_bytes: optional(Bytes),
  slots: optional(Type.Integer({ minimum: 1, maximum: 1024 })),
  context_length: optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
  /** How long it may take to be ready. */
  timeout_ms: optional(Type.Integer({ minimum: 1, maximum: 86_400_000 })),
});
export type StartWorker = Static<typeof StartWorker>;
export const WorkerOrdered = open({ worker_id: Type.String(), status: Type.Enum([...WORKER_STATUSES]) });
export type WorkerOrdered = Static<typeof WorkerOrdered>;

/** `POST /v2/workers/stop`: takes nothing new, ends what runs, is gone from the state when the process is. */
export const StopWorker = closed({ worker_id: Type.String({ pattern: WORKER_NAME }) });
export type StopWorker = Static<typeof StopWorker>;
/** `POST /v2/workers/{id}/drain`: takes nothing new and finishes what runs; past the time it is ended. */
export const DrainWorker = closed({
  deadline_ms: optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
});

/** `POST /v2/internal/workers/ready`: from a worker that listens already, with the secret it was given. */
export const WorkerReady = open({
  worker_id: Type.String({ pattern: WORKER_NAME }),
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  uri: Type.String({ minLength: 1, maxLength: 1024 }),
  vram_bytes: Bytes,
  slots: Type.Integer({ minimum: 1, maximum: 1024 }),
  context_length: Count,
  registry: Type.String({ minLength: 1 }),
  features: optional(Type.Array(Type.String())),
});
export type WorkerReady = Static<typeof WorkerReady>;

/** `POST /v2/models/resolve`: the same model with its revision and file pinned, as it lies here. */
export const ResolveModel = closed({ model_ref: Type.String({ minLength: 1, maxLength: 1024 }) });
export const ResolvedModel = open({
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  size_bytes: Bytes,
  /** What it was made for; a worker may have less. */
  context_length: optional(Count),
  kv_bytes_per_token: optional(Bytes),
  /** Jobs that a worker there runs at a time, where nobody says. */
  slots: optional(Count),
});
export type ResolvedModel = Static<typeof ResolvedModel>;

/**
 * `POST /v2/models/verify`: reads the file where it is, and answers with events: `progress {bytes, total}`, then
 * `end` with a VerifyResult or `error {code, message, retriable}`.
 */
export const VerifyModel = closed({
  model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
  sha256: optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
  /** Ed25519, of the 32 bytes of the sha256 of the file, in base64. */
  signature: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{86}==$' })),
  /** The 32 bytes of the key, in base64. */
  public_key: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$' })),
});
export type VerifyModel = Static<typeof VerifyModel>;
export const VerifyResult = open({
  sha256: Type.String(),
  size_bytes: Bytes,
  /** `none` where nothing was given to compare it with. */
  checksum: Type.Enum(['pass', 'fail', 'none']),
  signature: Type.Enum(['pass', 'fail', 'none']),
});
export type VerifyResult = Static<typeof VerifyResult>;

/** `POST /v2/pools/register` at the brain, and again and again as a sign of life. */
export const RegisterPool = closed({
  pool_id: Type.String({ pattern: POOL_NAME }),
  uri: Type.String({ minLength: 1, maxLength: 1024 }),
  /** What the brain must show there. */
  token: optional(Type.String({ maxLength: 256 })),
});
export type RegisterPool = Static<typeof RegisterPool>;
