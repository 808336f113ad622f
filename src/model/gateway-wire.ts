/**
 * The protocol of the gateway, the service in front of scarce LLM accounts (seats). A seat runs one request at a time,
 * unless its account allows more. The id of a request is the idempotency token with which it was submitted; tokens belong
 * to an owner, like those of a worker (worker-wire.ts), whose headers and events are used here too.
 */
import { type Static, Type } from 'typebox';
import { AnyObject } from './http/shape.ts';
import { BUSY_REASONS } from './reasons.ts';
import { ExecutionList, ExecutionState, Heard, MAX_THREAD_CHARS } from './worker-wire.ts';

const optional = Type.Optional;
const Count = Type.Integer({ minimum: 0, maximum: 1_000_000_000 });
const Instant = Type.Integer({ description: 'Milliseconds since 1970' });
const open = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: true });
const closed = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: false });

export const SeatName = Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' });
const ModelName = Type.String({ minLength: 1, maxLength: 512 });
const Token = Type.String({ minLength: 1, maxLength: 300 });

/** The ways to call a provider; each is a file in daemons/gateway/drivers. */
export const DRIVERS = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
  'anthropic-batches',
  'browser',
  'gemini-stream',
  'gemini-generate',
] as const;
export type DriverName = (typeof DRIVERS)[number];

/** The drivers whose provider runs requests in batches, and bills them so. */
export const BATCH_DRIVERS: ReadonlySet<DriverName> = new Set<DriverName>(['anthropic-batches']);

/** A caller that has no owner header, because it is no brain, acts under this owner. */
export const PLAIN_OWNER = 'callers';
/** The owner of the requests of the gateway's own queue. */
export const QUEUE_OWNER = 'queue';

const Selector = Type.String({ minLength: 1, maxLength: 1024 });
const Duration = Type.Integer({ minimum: 1, maximum: 7 * 86_400_000 });
const Path = Type.String({ minLength: 1, maxLength: 4096 });

/** CSS selectors of the elements of a chat page. */
export const PageSelectors = closed({
  /** The field into which the prompt is typed, and the button that sends it. */
  input: Selector,
  send: Selector,
  /** Every answer of the conversation; the last one is read. */
  answer: Selector,
  /** Shown while the page answers. Without it the page answers while `send` cannot be pressed. */
  busy: optional(Selector),
  /** Shown where the page wants a login. */
  login: optional(Selector),
  /** Shown where the page could not answer. */
  error: optional(Selector),
});
export type PageSelectors = Static<typeof PageSelectors>;

/** How the driver `browser` uses its page. */
export const PageOrder = closed({
  selectors: PageSelectors,
  /** The folder of the Chromium profile; by default below the folder of the gateway. */
  profile: optional(Path),
  /** The path of Chromium; by default it is looked for on the PATH. */
  executable: optional(Path),
  /** Further flags of Chromium. */
  args: Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), { maxItems: 100 }),
  headless: Type.Boolean(),
  /** Whether the text is sent on while it grows, or at the end only. */
  stream: Type.Boolean(),
  /** How long the page may take to load, and to begin its answer. */
  load_timeout_ms: Duration,
  /** The longest time from the send to the end of the answer. */
  answer_timeout_ms: Duration,
  /** An answer has ended when it has not changed for this long. */
  settle_ms: Duration,
});
export type PageOrder = Static<typeof PageOrder>;

/** One seat, as the gateway is told about it. */
export const SeatOrder = closed({
  name: SeatName,
  driver: Type.Enum([...DRIVERS]),
  /** The origin and path below which the provider's API is, without `/v1`; of `browser` the page of a new chat. The key is sent nowhere else. */
  url: Type.String({ minLength: 1, maxLength: 1024 }),
  key: optional(Type.String({ minLength: 1, maxLength: 8192 })),
  slots: Type.Integer({ minimum: 1, maximum: 10_000 }),
  /** From the name that callers use to the provider's name. */
  models: Type.Record(Type.String(), ModelName),
  /** Whether the provider may keep the answers, so that they can be collected after a crash. */
  keep: Type.Boolean(),
  /** A refused immediate request also ends what the gateway's own queue runs on this seat. */
  preempt: Type.Boolean(),
  /** Of the driver `browser` only, which needs it. */
  page: optional(PageOrder),
});
export type SeatOrder = Static<typeof SeatOrder>;

/** `PUT /seats`: all seats. Requests that run on a seat that is left out go on to their end. */
export const SeatsOrder = closed({
  seats: Type.Array(SeatOrder, { maxItems: 1000 }),
  /** How long a refused caller has the next turn on a seat. */
  reservation_ms: Type.Integer({ minimum: 1, maximum: 3_600_000 }),
  /** The longest time of one request. */
  timeout_ms: Type.Integer({ minimum: 1, maximum: 7 * 86_400_000 }),
});
export type SeatsOrder = Static<typeof SeatsOrder>;

export const SeatState = open({
  name: SeatName,
  driver: Type.Enum([...DRIVERS]),
  models: Type.Array(ModelName),
  slots: Count,
  running: Count,
  /** Why an immediate request would be refused now; absent while it would not be. */
  busy: optional(Type.Enum([...BUSY_REASONS])),
  /** When a seat that rests may be tried again. */
  busy_until: optional(Instant),
  /** A caller was refused and has the next turn: the gateway's own queue takes nothing. */
  high_priority_pending: Type.Boolean(),
  /** Jobs of the gateway's own queue that wait for this seat. */
  queued: Count,
  /** What the driver can do: see DriverAbilities. */
  finds: Type.Enum(['token', 'id', 'nothing']),
  /** Whether the provider bills the requests of this seat as batches; absent in answers of older gateways: it does not. */
  batched: optional(Type.Boolean()),
});
export type SeatState = Static<typeof SeatState>;

/**
 * `GET /seats?after=VERSION&wait_ms=N` answers as soon as the version differs from `after`, or after `wait_ms`. The
 * version changes when a seat does, or who may use it; a count that changes alone changes no version.
 */
export const GatewayState = open({
  /** Grows, over restarts of the gateway too. */
  version: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  registry: Type.String({ minLength: 1 }),
  seats: Type.Array(SeatState),
  /** Requests of all callers that run, and those whose results were not acknowledged yet. */
  running: Count,
  unacknowledged: Count,
});
export type GatewayState = Static<typeof GatewayState>;

/** `GET /backend/{name}/busy` */
export const BusyView = open({
  busy: Type.Boolean(),
  reason: optional(Type.Enum([...BUSY_REASONS])),
  retry_after_ms: optional(Count),
  high_priority_pending: Type.Boolean(),
});
export type BusyView = Static<typeof BusyView>;

/** `GET /health` */
export const GatewayHealth = open({
  /** `starting` until the gateway was told about its seats. */
  status: Type.Enum(['starting', 'ready', 'draining']),
  registry: Type.String({ minLength: 1 }),
  seats: Count,
  running: Count,
  uptime_seconds: Type.Number({ minimum: 0 }),
});
export type GatewayHealth = Static<typeof GatewayHealth>;

/*
 * Below `/requests/{id}` are also `GET events?from=N`, the events whose number is greater than N, and `POST ack`, after
 * which the result may be dropped. `POST /shutdown` takes a ShutdownRequest.
 */

/**
 * `POST /submit_immediate`: runs the request now, or answers WORKER_BUSY with `reason` and `retry_after_ms`; it never
 * waits. The same token again answers with the first request. With `Accept: text/event-stream` the answer is the stream
 * of the request's events.
 */
export const SubmitImmediate = open({
  backend: SeatName,
  /** The fields of ExecuteRequest without those that the gateway sets itself. */
  payload: Type.Union([AnyObject, Type.String()]),
  idempotency_token: Token,
  job_id: optional(Type.String({ minLength: 1, maxLength: 256 })),
  thread_id: optional(Type.Union([Type.String({ maxLength: MAX_THREAD_CHARS }), Type.Null()])),
  /**
   * What the thread has heard before: the payload has only what is new to it. With no messages a new thread begins. The
   * result then says what the thread has heard by now; without this field it does not.
   */
  heard: optional(Heard),
  preempt: optional(Type.Boolean()),
  timeout_ms: optional(Type.Integer({ minimum: 1 })),
});
export type SubmitImmediate = Static<typeof SubmitImmediate>;

export const SubmittedRequest = open({ request_id: Token, state: Type.Enum(['running', 'ended']) });
export type SubmittedRequest = Static<typeof SubmittedRequest>;

/** `GET /active_requests`: those of the caller's owner that run, or have ended and are not acknowledged. */
export const ActiveRequests = open({
  registry: ExecutionList.properties.registry,
  remembered_since: ExecutionList.properties.remembered_since,
  now: ExecutionList.properties.now,
  opening_before: ExecutionList.properties.opening_before,
  requests: Type.Array(
    open({
      request_id: Token,
      idempotency_token: Token,
      job_id: Type.String(),
      backend: Type.String(),
      state: Type.Enum(['running', 'ended']),
      started_at: Instant,
      hash: optional(Type.String()),
      /** The provider's id, once it is known. */
      upstream_id: optional(Type.String()),
    }),
  ),
});
export type ActiveRequests = Static<typeof ActiveRequests>;

/** `GET /requests/{id}`; see ExecutionState for `outcome`. */
export const RequestState = open({
  request_id: Token,
  job_id: Type.String(),
  backend: Type.String(),
  state: ExecutionState.properties.state,
  outcome: ExecutionState.properties.outcome,
});
export type RequestState = Static<typeof RequestState>;

/** `POST /requests/{id}/kill`, answered with a CancelReply. `bury` stops nothing, see CancelRequest. */
export const KillRequest = closed({ how: optional(Type.Enum(['end', 'bury'])) });

/** `POST /job/submit`: puts a job into the gateway's own queue, which runs when no immediate request wants the seat. */
export const QueueSubmit = closed({
  backend: SeatName,
  payload: Type.Union([AnyObject, Type.String()]),
  /** Chosen by the gateway if it is left out; the same id again answers with the first job. */
  job_id: optional(Type.String({ pattern: '^[A-Za-z0-9._-]{1,128}$' })),
  thread_id: optional(Type.Union([Type.String({ maxLength: 256 }), Type.Null()])),
});
export type QueueSubmit = Static<typeof QueueSubmit>;

/** `GET /job/{id}`, and the answer to `POST /job/submit` and `POST /job/{id}/cancel`. */
export const QueueJob = open({
  job_id: Type.String(),
  backend: Type.String(),
  state: Type.Enum(['queued', 'running', 'ended']),
  /** How often it was begun; more than once only after an immediate request has ended it, or the provider turned it away. */
  attempts: Count,
  outcome: ExecutionState.properties.outcome,
  /** The tokens of all its attempts together. */
  usage: optional(AnyObject),
});
export type QueueJob = Static<typeof QueueJob>;
