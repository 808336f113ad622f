/** Schemas of the HTTP requests and answers about pools and their workers. */
import { Type } from 'typebox';
import { JobError } from './errors.ts';
import { answerObject, instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const DAY_MS = 86_400_000;

export const DrainPool = requestObject({
  deadline_ms: optional(
    Type.Integer({
      minimum: 0,
      maximum: 30 * DAY_MS,
      description: 'Workers that are still busy after this many milliseconds are stopped; by default never',
    }),
  ),
  undo: optional(
    Type.Boolean({ description: 'Ends a drain instead of starting one: the pool gets new jobs again' }),
  ),
});

export const ReloadPool = requestObject({
  new_model_ref: Type.String({
    minLength: 1,
    maxLength: 1024,
    description: 'Model of the catalog, by id, alias or reference',
  }),
});

export const EvictWorker = requestObject({
  dead: optional(
    Type.Boolean({
      description:
        'The operator vouches that the process of the worker is gone: its jobs are retried at once. A wrong true lets a job run twice',
    }),
  ),
});

const Gpu = answerObject('PoolGpu', {
  id: Type.Integer(),
  total_vram: Type.Integer({ description: 'Bytes of device memory' }),
  available_vram: Type.Integer({ description: 'Bytes of device memory that a new worker could get now' }),
  leased_vram: Type.Integer({ description: 'Bytes that leases hold, whether they are used already or not' }),
  status: Type.Union([Type.Literal('ok'), Type.Literal('error')]),
  reason: orNull(Type.String({ description: 'Why the device cannot be used, if its status is "error"' })),
});

const PoolWorker = answerObject('PoolWorker', {
  worker_id: Type.String(),
  model_ref: Type.String(),
  gpu: Type.Integer({ description: 'The `id` of its device in `gpus`' }),
  vram_used: Type.Integer({ description: 'Bytes of device memory that the worker has, or has reserved' }),
  status: Type.String({ description: '"starting", "ready", "busy", "draining" or "failed"' }),
  active: Type.Integer({ description: 'Jobs that run on the worker' }),
  slots: optional(
    Type.Integer({ description: 'Jobs that the worker runs at a time; absent until it is ready' }),
  ),
  why: orNull(
    Type.String({
      description:
        'Why the worker was started or, if it is draining or stopping, why; null if the brain has no record of it',
    }),
  ),
  unusable: orNull(
    Type.String({
      description:
        'Why the brain gives the worker no jobs, such as an address that is not allowed; null if it can be used',
    }),
  ),
  error: orNull(JobError),
});
export type PoolWorker = Shape<typeof PoolWorker>;

export const PoolView = answerObject('Pool', {
  pool_id: Type.String(),
  status: Type.Union(
    [Type.Literal('ok'), Type.Literal('unreachable'), Type.Literal('draining'), Type.Literal('degraded')],
    {
      description:
        '"unreachable" if the pool manager does not answer, or what it answers is refused; "degraded" if a device or a worker has failed',
    },
  ),
  address: orNull(
    Type.String({ description: 'Address of the pool manager; null while the brain is not in touch with it' }),
  ),
  region: orNull(Type.String({ description: 'Jobs that prefer this region run here if they can' })),
  heard_at: instant('When the pool manager last reported'),
  problem: optional(
    Type.String({ description: 'Why the reports of an unreachable pool are refused, if it sends some' }),
  ),
  draining: orNull(
    Type.Object(
      {
        by: Type.String({ description: 'Name of the token that ordered the drain' }),
        deadline: orNull(instant('When workers that are still busy are stopped; null: they may finish')),
      },
      { description: 'The order to drain the pool; null if there is none' },
    ),
  ),
  gpus: Type.Array(Gpu),
  workers: Type.Array(PoolWorker),
});
export type PoolView = Shape<typeof PoolView>;

export const PoolList = answerObject('PoolList', { pools: Type.Array(PoolView) });

export const PoolRegistered = answerObject('PoolRegistered', { pool_id: Type.String() });

export const WorkerEvicted = answerObject('WorkerEvicted', {
  worker_id: Type.String(),
  pool: Type.String({ description: 'The pool of the worker' }),
  state: Type.String({
    description:
      '"draining" if the worker finishes its jobs first, else "stopping"; with `dead` the state that it had before',
  }),
  why: Type.String({ description: 'Why the worker is stopped' }),
});
