/** Schemas of the HTTP requests and answers about worker pools, in the words of the table `worker_pools`. */
import { Type } from 'typebox';
import { PROVISIONERS, WORKER_POOL_STATUSES } from '../worker-pool-record.ts';
import { POOL_NAME } from './consumers.ts';
import { answerObject, instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const YEAR_SEC = 31_536_000;
export const MAX_WORKERS = 10_000;

const name = (description: string) => Type.String({ minLength: 1, maxLength: 255, description });
const desired = Type.Integer({
  minimum: 0,
  maximum: MAX_WORKERS,
  description: 'So many workers are kept running',
});
const hold = Type.Integer({
  minimum: 0,
  maximum: YEAR_SEC,
  default: 600,
  description: 'The pool is drained when it has had no work for so long; 0 keeps it until somebody drains it',
});

export const CreateWorkerPool = requestObject({
  pool_id: optional(
    Type.String({ pattern: POOL_NAME, description: 'Chosen by the brain if it is left out' }),
  ),
  agent_name: optional(name('The agent that the pool works for')),
  model_id: optional(name('A model of the catalog; needed for workers that pool managers start')),
  adapter: optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      description:
        'A LoRA file that is applied to the model: file:/absolute/path.gguf, with @sha256:HEX if the file must have this digest. Jobs name the model in `serves`',
    }),
  ),
  variant: optional(
    name('A variant of the model, told to whoever starts the workers. Jobs name the model in `serves`'),
  ),
  desired_workers: optional(desired),
  hold_seconds: optional(hold),
  provisioner: optional(
    Type.Enum([...PROVISIONERS], {
      description:
        'Who starts the workers: `managers`, with a model the default, are pool managers; `external` is a program such as `orchd provision`',
    }),
  ),
  metadata: optional(
    Type.Record(Type.String({ maxLength: 64 }), Type.String({ maxLength: 1024 }), {
      maxProperties: 32,
      description: 'Told to whoever starts the workers',
    }),
  ),
});
export type WorkerPoolRequest = Shape<typeof CreateWorkerPool>;

export const ChangeWorkerPool = requestObject({
  desired_workers: optional(desired),
  hold_seconds: optional(hold),
});
export type WorkerPoolChange = Shape<typeof ChangeWorkerPool>;

export const WorkerPoolHeartbeat = requestObject({
  spawned_workers: Type.Integer({ minimum: 0, maximum: MAX_WORKERS, description: 'Workers that run now' }),
});

export const DrainWorkerPool = requestObject({
  grace_seconds: optional(
    Type.Integer({
      minimum: 0,
      maximum: YEAR_SEC,
      description: 'Workers that are still busy after so long are stopped; by default they may finish',
    }),
  ),
});

export const WorkerPoolView = answerObject('WorkerPool', {
  pool_id: Type.String(),
  agent_name: orNull(Type.String()),
  model_id: orNull(Type.String()),
  serves: orNull(Type.String({ description: 'The model that its workers have, which jobs name' })),
  adapter: orNull(Type.String()),
  variant: orNull(Type.String()),
  provisioner: Type.Enum([...PROVISIONERS]),
  status: Type.Enum([...WORKER_POOL_STATUSES]),
  desired_workers: Type.Integer(),
  wished_workers: Type.Integer({
    description: 'So many it should have now: none when it is over',
  }),
  spawned_workers: Type.Integer({ description: 'Workers that run' }),
  hold_seconds: Type.Integer(),
  started_at: instant('When it was created'),
  ordered_at: instant('When the last order was given'),
  last_heartbeat: orNull(instant('The last report of the program outside that was written down')),
  drain_by: orNull(instant('While it drains: when workers that are still busy are stopped')),
  grace_over: Type.Boolean({
    description: 'It drains, and its grace time is over: what runs still is to be ended at once',
  }),
  by: Type.String({ description: 'Who gave the last order; `hold` if its time was over' }),
  metadata: Type.Record(Type.String(), Type.String()),
  problem: orNull(Type.String({ description: 'Why it has fewer workers than wished, if that is known' })),
});
export type WorkerPoolView = Shape<typeof WorkerPoolView>;

export const WorkerPoolList = answerObject('WorkerPoolList', { pools: Type.Array(WorkerPoolView) });

export const WorkerPoolDeleted = answerObject('WorkerPoolDeleted', {
  deleted: Type.Literal(true),
  pool_id: Type.String(),
});
