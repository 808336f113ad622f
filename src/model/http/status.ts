/** Schema of the HTTP answer about the whole of a brain at one instant. */
import { Type } from 'typebox';
import { BackendView, Health, LeaderView } from './meta.ts';
import { answerObject, instant, orNull, type Shape } from './shape.ts';

const optional = Type.Optional;
const count = (description: string) => Type.Integer({ minimum: 0, description });

/** The most jobs that each list of a status shows. */
export const MAX_STATUS_JOBS = 100;
/** The most limits that a status shows. */
export const MAX_STATUS_LIMITS = 20;
/** A limit is near if this share of it is used. */
export const NEAR_SHARE = 0.8;

export const StatusJob = answerObject('StatusJob', {
  job_id: Type.String(),
  type: Type.String(),
  priority: Type.Union([Type.Literal('interactive'), Type.Literal('batch')]),
  model: optional(Type.String()),
  backend: Type.String({ description: 'Name of the backend of its open attempt' }),
  since: instant('When a backend accepted the attempt, or else when it was offered'),
});
export type StatusJob = Shape<typeof StatusJob>;

export const StatusModel = answerObject('StatusModel', {
  name: Type.String({ description: 'The name by which jobs name the model' }),
  source: Type.Union([Type.Literal('catalog'), Type.Literal('backend')], {
    description: '"backend" if the model is not in the catalog, and a backend offers it by itself',
  }),
  model_ref: orNull(Type.String({ description: 'Reference of a model of the catalog' })),
  context_length: orNull(Type.Integer({ description: 'Tokens of prompt and answer together, if known' })),
  state: Type.Enum(['ready', 'starting', 'idle', 'failing', 'retired', 'down'], {
    description:
      '"idle" if no worker has it, and one is started when a job comes; "failing" if its last start failed; "down" if no backend that offers it can be used',
  }),
  problem: optional(Type.String({ description: 'Why the upstreams that offer it cannot be used' })),
  upstreams: optional(Type.Array(Type.String(), { description: 'Names of the upstreams that offer it' })),
  workers: count('Workers and other backends that have it and can be reached'),
  slots: count('Jobs that they run at a time'),
  used: optional(count('Slots in use, by all tenants; only for callers of the default tenant')),
  waiting: optional(count('Jobs that wait for it, of all tenants; only for callers of the default tenant')),
});
export type StatusModel = Shape<typeof StatusModel>;

export const NearLimit = answerObject('NearLimit', {
  scope: Type.String(),
  what: Type.Union([
    Type.Literal('requests'),
    Type.Literal('tokens'),
    Type.Literal('concurrency'),
    Type.Literal('budget'),
    Type.Literal('running'),
    Type.Literal('cost'),
  ]),
  used: Type.Number({ description: 'More than `of` while it is in debt' }),
  of: Type.Number({
    description: 'Of requests and tokens: how many are admitted at once; of cost: millionths of the currency',
  }),
});
export type NearLimit = Shape<typeof NearLimit>;

const Totals = Type.Object(
  {
    accepted: count('Jobs that were admitted'),
    rejected: count('Submits that were refused'),
    succeeded: count('Jobs that have succeeded'),
    cancelled: count('Jobs that were cancelled'),
    dead: count('Jobs that have died'),
    turns_held: count('Starts of jobs of sessions on a backend that had heard the conversation'),
    turns_moved: count(
      'Starts of jobs of sessions on another backend than those that had heard the conversation',
    ),
  },
  {
    description:
      'Counted since the process of the brain started, over all tenants; only for callers of the default tenant',
  },
);

export const Status = answerObject('Status', {
  version: Type.String({ description: 'Version of orchd' }),
  status: Health.properties.status,
  disk_full: Health.properties.disk_full,
  paused: Type.Boolean({ description: 'Whether the brain is stopping, and starts no more jobs' }),
  uptime_ms: Health.properties.uptime_ms,
  now: instant('The clock of the brain'),
  store: Type.String({ description: 'Kind of store that the brain keeps its records in' }),
  leader: LeaderView,
  queue: Type.Object({
    capacity: count('Maximum number of waiting jobs'),
    policy: Type.String({ description: 'What happens if the queue is full' }),
    ready: optional(
      Type.Object(
        { interactive: count('Of this class'), batch: count('Of this class') },
        {
          description:
            'Waiting jobs that could run now, of all tenants, by class; the other waiting jobs wait for an instant, for their session, for the backend with their conversation or at a limit. Only for callers of the default tenant',
        },
      ),
    ),
  }),
  jobs: Type.Object(
    {
      queued: count('Waiting jobs'),
      claimed: count('Jobs that are being offered to a backend'),
      running: count('Running jobs'),
      waiting: count(
        'Jobs without an attempt that wait for jobs below them, for an instant or for an answer',
      ),
      stale: count('Jobs whose outcome is not known'),
    },
    { description: 'Live jobs: for the default tenant those of all tenants, for others their own' },
  ),
  running: Type.Array(StatusJob, {
    description: `Jobs of the caller's tenant that run or are being offered, the oldest first; at most ${MAX_STATUS_JOBS}`,
  }),
  held: Type.Array(StatusJob, {
    description: `Jobs of the caller's tenant whose outcome is not known, the oldest first; at most ${MAX_STATUS_JOBS}`,
  }),
  backends: Type.Array(BackendView),
  models: Type.Array(StatusModel, { description: 'By name' }),
  limits: Type.Array(NearLimit, {
    description: `Limits of which ${NEAR_SHARE * 100} % are used, the nearest first; at most ${MAX_STATUS_LIMITS}`,
  }),
  totals: optional(Totals),
});
export type Status = Shape<typeof Status>;
