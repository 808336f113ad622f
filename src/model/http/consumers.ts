/** Schemas of the HTTP requests and answers about consumers: processes that ask for work. */
import { Type } from 'typebox';
import { AnyObject, answerObject, Instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$';
/** Pools of consumers and worker pools: the consumers of a worker pool register under its id. */
export const POOL_NAME = NAME;
const MAX_TTL_MS = 3_600_000;
/** A claim waits for work at most this long. */
export const MAX_CLAIM_WAIT_MS = 30_000;
/** Attempts that one consumer may hold, and entries of one request. */
export const MAX_HELD = 1000;

const token = Type.String({ minLength: 1, maxLength: 300, description: 'Token of an attempt' });
const claim = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

export const ConsumerBody = requestObject({
  pool: Type.String({ pattern: POOL_NAME, description: 'The pool whose jobs it takes' }),
  name: optional(
    Type.String({ pattern: NAME, description: 'Its name in the pool; chosen by the brain without it' }),
  ),
  slots: Type.Integer({ minimum: 1, maximum: MAX_HELD, description: 'Jobs that it runs at a time' }),
  types: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
    minItems: 1,
    maxItems: 100,
    description: 'Types of jobs that it runs',
  }),
  models: optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
      maxItems: 1000,
      description: 'Models that it has; without it, it runs only jobs without a model',
    }),
  ),
  labels: optional(
    Type.Record(Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }), Type.String({ maxLength: 255 }), {
      maxProperties: 32,
      description: 'Labels that jobs may ask for; the label "pool" is added',
    }),
  ),
  paid: optional(
    Type.Boolean({
      description: 'A second run would cost money: jobs of unknown outcome are held by default',
    }),
  ),
  listens: optional(
    Type.Literal('redis', { description: 'It hears of work from the stream that the answer names' }),
  ),
  gpu_memory_mb: optional(
    Type.Integer({
      minimum: 1,
      maximum: 100_000_000,
      description: 'Device memory that it needs for each job: it gets a job only with a lease on a GPU',
    }),
  ),
  gpu_pool: optional(
    Type.String({
      pattern: NAME,
      description: 'The pool of its machine; by default the GPUs of the configuration, or those of all pools',
    }),
  ),
  lease_ttl_ms: optional(
    Type.Integer({
      minimum: 1000,
      maximum: MAX_TTL_MS,
      description: 'It is silent, and its jobs are of unknown outcome, this long after its last heartbeat',
    }),
  ),
  consumer_id: optional(
    Type.String({
      pattern: '^[0-9a-f]{32}$',
      description:
        'The id of the registration, chosen by the caller: a repeated request with it is answered alike',
    }),
  ),
});
export type ConsumerBody = Shape<typeof ConsumerBody>;

export const ConsumerRegistered = answerObject('ConsumerRegistered', {
  consumer_id: Type.String({ description: 'Names the consumer in its other requests; a secret' }),
  pool: Type.String(),
  name: Type.String(),
  lease_ttl_ms: Type.Integer(),
  heartbeat_ms: Type.Integer({ description: 'Send a heartbeat this often' }),
  stream: optional(
    Type.Object(
      { key: Type.String(), group: Type.String() },
      { description: 'Where it hears of work, if Redis is used' },
    ),
  ),
});
export type ConsumerRegistered = Shape<typeof ConsumerRegistered>;

export const ClaimBody = requestObject({
  claim: Type.Integer({
    ...claim,
    description: 'Grows with each claim; the same number again gives the same jobs, if the answer was lost',
  }),
  max: Type.Integer({ minimum: 1, maximum: MAX_HELD, description: 'Jobs to take at most' }),
  tokens: optional(
    Type.Array(token, { maxItems: MAX_HELD, description: 'Take only these, which it has heard of' }),
  ),
  wait_ms: optional(
    Type.Integer({
      minimum: 0,
      maximum: MAX_CLAIM_WAIT_MS,
      description: 'Without work, wait for some this long',
    }),
  ),
});
export type ClaimBody = Shape<typeof ClaimBody>;

export const ClaimedJob = answerObject('ClaimedJob', {
  token,
  job_id: Type.String(),
  tenant: Type.String(),
  attempt: Type.Integer(),
  type: Type.String(),
  model: optional(Type.String()),
  timeout_ms: optional(Type.Integer({ description: 'The brain ends it after this time' })),
  deadline_ms: optional(Type.Integer({ description: 'Time that is left of the deadline of the job' })),
  session_id: optional(Type.String()),
  correlation_id: optional(Type.String()),
  traceparent: optional(Type.String()),
  tags: optional(AnyObject),
  lease: optional(
    Type.Object(
      {
        token: Type.String({ description: 'Names the lease in writes that are made under it' }),
        fence: Type.Integer(),
        pool: orNull(Type.String()),
        gpu_index: Type.Integer(),
        memory_mb: Type.Integer(),
      },
      { description: 'The GPU for the job, where its consumer needs one: held until the attempt has ended' },
    ),
  ),
  payload: Type.Unknown(),
});

export const ClaimAnswer = answerObject('ClaimAnswer', {
  jobs: Type.Array(ClaimedJob),
  drain: Type.Boolean({ description: 'It gets no more jobs: finish, and leave' }),
});

export const HeldBody = requestObject({
  held: Type.Array(token, {
    maxItems: MAX_HELD,
    description: 'Tokens that it works on, or whose results were not acknowledged yet',
  }),
  claimed: Type.Integer({
    ...claim,
    description: 'Highest number of a claim whose answer it has received, or given up',
  }),
});
export type HeldBody = Shape<typeof HeldBody>;

export const HeldAnswer = answerObject('HeldAnswer', {
  lease_ttl_ms: Type.Integer(),
  stop: Type.Array(Type.Object({ token, why: Type.String() }), {
    description: 'End these, and report them as cancelled',
  }),
  lost: Type.Array(token, { description: 'No longer its own: end these, and report nothing' }),
  events: Type.Record(Type.String(), Type.Integer(), {
    description: 'The number of the last event that the brain has of each token; send those after it again',
  }),
  drain: Type.Boolean({ description: 'It gets no more jobs: finish, and leave' }),
});
export type HeldAnswer = Shape<typeof HeldAnswer>;

const eventFields = {
  token,
  n: Type.Integer({
    minimum: 1,
    maximum: 2 ** 40,
    description: 'Counts from 1 for each token, without gaps',
  }),
  data: Type.Unknown(),
  gap: optional(Type.Literal(true, { description: 'Earlier events are gone: go on from this one' })),
};

export const ConsumerEvents = requestObject({
  events: Type.Array(
    requestObject({ ...eventFields, type: Type.Union([Type.Literal('token'), Type.Literal('metrics')]) }),
    { maxItems: 10_000 },
  ),
});
export type ConsumerEvents = Shape<typeof ConsumerEvents>;

export const EventsTaken = answerObject('EventsTaken', {
  lost: Type.Array(token, { description: 'No longer its own: end these, and report nothing' }),
});
export type EventsTaken = Shape<typeof EventsTaken>;

const count = optional(Type.Integer({ minimum: 0, maximum: 1e12 }));
const usage = optional(
  requestObject({
    prompt_tokens: count,
    completion_tokens: count,
    cache_read_tokens: count,
    cache_write_tokens: count,
    reasoning_tokens: count,
    decode_time_ms: optional(Type.Number({ minimum: 0 })),
  }),
);

export const ConsumerResults = requestObject({
  results: Type.Array(
    Type.Union([
      requestObject({ token, ok: Type.Literal(true), result: Type.Unknown(), usage }),
      requestObject({
        token,
        ok: Type.Literal(false),
        error: requestObject({
          code: optional(Type.String({ maxLength: 64 })),
          message: Type.String({ maxLength: 10_000 }),
          retriable: optional(Type.Boolean()),
        }),
        retry_after_ms: optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
        usage,
      }),
      requestObject({ token, cancelled: Type.Literal(true), usage }),
      requestObject({ token, returned: Type.Literal(true) }),
      requestObject({
        token,
        unknown: Type.Literal(true),
        message: optional(Type.String({ maxLength: 10_000 })),
      }),
    ]),
    { maxItems: MAX_HELD },
  ),
});
export type ConsumerResults = Shape<typeof ConsumerResults>;

export const ResultsRecorded = answerObject('ResultsRecorded', {
  results: Type.Array(
    Type.Object({
      token,
      recorded: optional(Type.Literal(true, { description: 'It is durable, now or since before' })),
      error: optional(AnyObject),
    }),
  ),
});
export type ResultsRecorded = Shape<typeof ResultsRecorded>;

export const ConsumerView = answerObject('Consumer', {
  id: Type.String({ description: 'Pool and name' }),
  pool: Type.String(),
  name: Type.String(),
  state: Type.Union([Type.Literal('live'), Type.Literal('draining'), Type.Literal('silent')]),
  slots: Type.Integer(),
  held: Type.Integer({ description: 'Jobs that it holds' }),
  types: Type.Array(Type.String()),
  models: optional(Type.Array(Type.String())),
  labels: Type.Record(Type.String(), Type.String()),
  listens: optional(Type.String()),
  lease_ttl_ms: Type.Integer(),
  registered_at: Instant,
  seen_at: Instant,
});
export type ConsumerView = Shape<typeof ConsumerView>;

export const ConsumerLeft = answerObject('ConsumerLeft', { left: Type.Literal(true) });

export const ConsumerList = answerObject('ConsumerList', { consumers: Type.Array(ConsumerView) });
