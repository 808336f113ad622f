/** Schemas of the policy: what operators set at run time. */
import { Type } from 'typebox';
import { EVICTED_KINDS, ON_DEPTH } from '../policy.ts';
import { MAX_LIMITS, WrittenLimit } from './limits.ts';
import { answerObject, instant, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const MAX_JOBS = 10_000_000;
const jobs = (description: string) =>
  Type.Integer({ minimum: 0, maximum: MAX_JOBS, default: 0, description });
const percent = (description: string) => Type.Number({ minimum: 0, maximum: 100, default: 0, description });
const seconds = (description: string) => Type.Number({ minimum: 0.001, maximum: 2_000_000, description });

const LOWER = '; 0: at 80 % of close_above';

const WrittenGates = Type.Object(
  {
    queue_depth: optional(
      requestObject({
        close_above: jobs('Jobs that may wait; 0 turns the gate off'),
        open_below: optional(jobs(`When the gate opens again${LOWER}`)),
        on_depth: optional(Type.Enum([...ON_DEPTH])),
      }),
    ),
    gpu_memory: optional(
      requestObject({
        close_above: percent('Percent of the memory of all GPUs; 0 turns the gate off'),
        open_below: optional(percent(`When the gate opens again${LOWER}`)),
      }),
    ),
    agent_waiting: optional(
      requestObject({
        high: jobs('Jobs of one agent from which on its new jobs are refused; 0 turns the gate off'),
        low: optional(jobs('They are taken when fewer than this wait; 0: at 80 % of high')),
      }),
    ),
  },
  { title: 'Gates', additionalProperties: false },
);
export type WrittenGates = Shape<typeof WrittenGates>;

const VALUES = {
  gates: optional(WrittenGates),
  idle_unload_sec: optional(seconds('A worker that has been idle for so long is stopped')),
  max_workers_per_model: optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
  min_warm_workers_per_pool: optional(
    Type.Integer({
      minimum: 0,
      maximum: 10_000,
      description:
        'Workers that each worker pool has at least, also one that asks for fewer or has had no work for its hold_seconds',
    }),
  ),
  max_total_workers: optional(
    Type.Integer({
      minimum: 0,
      maximum: 100_000,
      description: 'Most workers of all pools and worker pools together; idle ones above it are stopped',
    }),
  ),
  scale_up_wait_sec: optional(
    seconds('Another worker is started when jobs of its model would wait longer than this'),
  ),
};

const why = Type.String({ minLength: 1, maxLength: 500, description: 'The reason, which is kept' });

export const SetPolicy = requestObject({
  ...VALUES,
  limits: optional(
    Type.Array(WrittenLimit, {
      maxItems: MAX_LIMITS,
      description: 'They replace all limits, as PUT /v2/limits does; left out: the limits stay',
    }),
  ),
  why,
  force: optional(Type.Boolean({ description: 'Set it although nothing starts any more then' })),
});
export type PolicyRequest = Shape<typeof SetPolicy>;

export const SetPolicyQuery = requestObject({
  dry_run: optional(
    Type.Enum(['true', 'false'], {
      description: 'true: nothing changes; the answer says whom it would hit now',
    }),
  ),
});

export const UndoPolicy = requestObject({ why });

const PolicyValues = answerObject('PolicyValues', VALUES);
export type PolicyValuesView = Shape<typeof PolicyValues>;

const PolicyPreview = answerObject('PolicyPreview', {
  closes_queue: Type.Boolean({ description: 'More jobs wait now than the gate of the queue would let wait' }),
  closes_memory: Type.Boolean({ description: 'No worker would be started on a GPU now' }),
  agents: Type.Array(Type.String(), { description: 'Agents whose new jobs would be refused now' }),
  idle_workers: Type.Array(Type.String(), {
    description: 'Workers that would be stopped now, since they have been idle for long enough',
  }),
  excess_workers: Type.Array(Type.String(), {
    description: 'Idle workers that would be stopped now, since there are more than max_total_workers',
  }),
  worker_pools: Type.Array(
    Type.Object({ pool_id: Type.String(), wished_workers: Type.Integer(), before: Type.Integer() }),
    { description: 'Worker pools that would be told another number of workers now' },
  ),
  scopes: Type.Array(Type.Object({ scope: Type.String(), running: Type.Integer(), limit: Type.Integer() }), {
    description: 'Scopes in which more jobs run than the limits would let run; they go on',
  }),
});

export const PolicyView = answerObject('Policy', {
  set: Type.Object(VALUES, {
    description: 'What was set at run time; all else is as the configuration says',
  }),
  by: Type.String(),
  why: Type.String(),
  at: instant('When it was set; 0 if nobody has set anything'),
  in_force: PolicyValues,
  limits: Type.Array(WrittenLimit),
  before: optional(
    answerObject('PolicyBefore', {
      set: PolicyValues,
      by: Type.String(),
      why: Type.String(),
      at: instant('When that was set'),
    }),
  ),
  preview: optional(PolicyPreview),
});
export type PolicyView = Shape<typeof PolicyView>;

export const EvictPool = requestObject({
  pool_id: Type.String({ minLength: 1, maxLength: 256 }),
  kind: optional(
    Type.Enum([...EVICTED_KINDS], {
      description: 'A worker pool, or the pool of a pool manager; needed only where both have this name',
    }),
  ),
});

export const PoolEvicted = answerObject('PoolEvicted', {
  pool_id: Type.String(),
  workers: Type.Array(Type.String(), {
    description:
      'They stop: those of a worker pool at once, those of a pool manager when they have finished their jobs',
  }),
});
