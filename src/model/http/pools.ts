/** Pools and their workers on the wire. */
import { Type } from 'typebox';
import { answerObject, Instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const DAY_MS = 86_400_000;

export const DrainPool = requestObject({
  deadline_ms: optional(Type.Integer({ minimum: 0, maximum: 30 * DAY_MS })),
  undo: optional(Type.Boolean()),
});

export const ReloadPool = requestObject({ new_model_ref: Type.String({ minLength: 1, maxLength: 1024 }) });

export const EvictWorker = requestObject({ dead: optional(Type.Boolean()) });

const Gpu = answerObject('PoolGpu', {
  id: Type.Integer(),
  total_vram: Type.Integer(),
  available_vram: Type.Integer(),
  status: Type.Union([Type.Literal('ok'), Type.Literal('error')]),
  reason: orNull(Type.String()),
});

const PoolWorker = answerObject('PoolWorker', {
  worker_id: Type.String(),
  model_ref: Type.String(),
  gpu: Type.Integer(),
  vram_used: Type.Integer(),
  status: Type.String(),
  active: Type.Integer({ description: 'Jobs that run on it' }),
  slots: optional(Type.Integer({ description: 'Absent until it is ready' })),
  why: orNull(Type.String({ description: 'Why it was started, or why it is stopped' })),
  unusable: orNull(Type.String()),
  error: orNull(Type.Object({ code: Type.String(), message: Type.String() })),
});
export type PoolWorker = Shape<typeof PoolWorker>;

export const PoolView = answerObject('Pool', {
  pool_id: Type.String(),
  status: Type.Union([
    Type.Literal('ok'),
    Type.Literal('unreachable'),
    Type.Literal('draining'),
    Type.Literal('degraded'),
  ]),
  region: orNull(Type.String()),
  heard_at: Instant,
  draining: orNull(Type.Object({ by: Type.String(), deadline: orNull(Instant) })),
  gpus: Type.Array(Gpu),
  workers: Type.Array(PoolWorker),
});
export type PoolView = Shape<typeof PoolView>;

export const PoolList = answerObject('PoolList', { pools: Type.Array(PoolView) });

export const PoolRegistered = answerObject('PoolRegistered', { pool_id: Type.String() });

export const WorkerEvicted = answerObject('WorkerEvicted', {
  worker_id: Type.String(),
  pool: Type.String(),
  state: Type.String(),
  why: Type.String(),
});
