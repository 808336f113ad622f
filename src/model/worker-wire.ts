/**
 * What the brain and a worker say to each other. A worker has one model; it keeps the events and the result of
 * every execution until they are acknowledged, or until it must make room.
 */
import { type Static, Type } from 'typebox';

const optional = Type.Optional;
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** Fields that a newer version sends are read over. */
const open = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: true });

export interface Commander {
  readonly owner: string;
  readonly epoch: number;
}

/** Who commands, on every order to a worker or a pool manager: an older epoch of the same owner is refused. */
export const OWNER_HEADER = 'x-orchd-owner';
export const EPOCH_HEADER = 'x-orchd-epoch';
/** The memory that an offer counts on: a worker that has another one turns it away as busy. */
export const REGISTRY_HEADER = 'x-orchd-registry';
/** The token of the attempt. */
export const TOKEN_HEADER = 'idempotency-key';

/** `POST /execute`. The payload of the job, with what the brain adds to it. */
export const ExecuteRequest = open({
  job_id: Type.String({ minLength: 1, maxLength: 256 }),
  session_id: optional(Type.String({ maxLength: 256 })),
  /** The name under which the caller asked for the model, for what is told back. */
  model: optional(Type.String({ maxLength: 1024 })),
  prompt: optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  messages: optional(Type.Array(Type.Record(Type.String(), Type.Unknown()))),
  /** Texts to embed instead of anything to answer. */
  input: optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  max_tokens: optional(Type.Union([Count, Type.Null()])),
  temperature: optional(Type.Union([Type.Number(), Type.Null()])),
  top_p: optional(Type.Union([Type.Number(), Type.Null()])),
  seed: optional(Type.Union([Type.Integer(), Type.Null()])),
  stop: optional(Type.Union([Type.String(), Type.Array(Type.String()), Type.Null()])),
  tools: optional(Type.Array(Type.Record(Type.String(), Type.Unknown()))),
  tool_choice: optional(Type.Unknown()),
  response_format: optional(Type.Unknown()),
});
export type ExecuteRequest = Static<typeof ExecuteRequest>;

/** A call that the model wants made. */
export const ToolCall = open({
  id: Type.String(),
  type: Type.Literal('function'),
  function: open({ name: Type.String(), arguments: Type.String() }),
});
export type ToolCall = Static<typeof ToolCall>;

export const Usage = open({ prompt_tokens: Count, completion_tokens: Count });
export type Usage = Static<typeof Usage>;

/** The result of an execution: what the job's `result` is. Of an embedding there is no text. */
export const ExecutionResult = open({
  text: optional(Type.String()),
  finish_reason: optional(
    Type.Enum(['stop', 'length', 'tool_calls', 'content_filter'], { description: 'Why it ended' }),
  ),
  tool_calls: optional(Type.Array(ToolCall)),
  embeddings: optional(Type.Array(Type.Array(Type.Number()))),
  usage: optional(Usage),
});
export type ExecutionResult = Static<typeof ExecutionResult>;

/**
 * The events of an execution, numbered from 1; the number is the id of the event.
 * `started`, then `token` for every piece, `metrics` now and then, and one of `end` and `error` at the last.
 */
export const StartedEvent = open({
  job_id: Type.String(),
  model: optional(Type.String()),
  started_at: Type.Integer(),
});
/** A piece of the answer. One that is not text comes with `t` empty and the change as OpenAI would send it. */
export const TokenEvent = open({
  t: Type.String(),
  i: Count,
  delta: optional(open({ tool_calls: optional(Type.Array(Type.Unknown())) })),
});
export type TokenEvent = Static<typeof TokenEvent>;
export const EndEvent = open({
  tokens_out: Count,
  decode_time_ms: Type.Number({ minimum: 0 }),
  /** From the arrival of the order to the first piece. */
  first_token_ms: optional(Type.Number({ minimum: 0 })),
  result: ExecutionResult,
});
export type EndEvent = Static<typeof EndEvent>;
/** The end of one that was cancelled has the code CANCELLED. */
export const ErrorEvent = open({
  code: Type.String(),
  message: Type.String(),
  retriable: Type.Boolean(),
  retry_after_ms: optional(Type.Number({ minimum: 0 })),
});
export type ErrorEvent = Static<typeof ErrorEvent>;

/** How an execution ended, where it is asked for apart from its events. */
export const WorkerOutcome = Type.Union([
  open({
    ok: Type.Literal(true),
    result: ExecutionResult,
    /** The same as in the `end` event. */
    decode_time_ms: optional(Type.Number({ minimum: 0 })),
  }),
  open({ ok: Type.Literal(false), error: ErrorEvent }),
  open({ ok: Type.Literal('cancelled') }),
]);
export type WorkerOutcome = Static<typeof WorkerOutcome>;

/** What a worker says of its memory: it remembers every token that it was offered since then. */
const memory = { registry: Type.String({ minLength: 1 }), remembered_since: Type.Integer() };

/** `GET /executions`: those of the owner who asks; without results, which `GET /executions/{token}` has. */
export const ExecutionList = open({
  ...memory,
  executions: Type.Array(
    open({ token: Type.String(), job_id: Type.String(), state: Type.Enum(['running', 'ended']) }),
  ),
});
export type ExecutionList = Static<typeof ExecutionList>;

/**
 * `GET /executions/{token}`. One that has ended without an outcome has run; how it ended was dropped to make room.
 * A token is taken URL-encoded in a path.
 */
export const ExecutionState = open({
  token: Type.String(),
  job_id: Type.String(),
  state: Type.Enum(['running', 'ended']),
  outcome: optional(WorkerOutcome),
});
export type ExecutionState = Static<typeof ExecutionState>;

/**
 * `POST /cancel`: by token, or every execution of a job. A token that is not known is refused from then on. With
 * `bury` one that runs is left alone.
 */
export const CancelRequest = Type.Object(
  {
    job_id: Type.String({ minLength: 1, maxLength: 256 }),
    token: optional(Type.String({ minLength: 1, maxLength: 300 })),
    how: optional(Type.Enum(['end', 'bury'])),
  },
  { additionalProperties: false },
);
/** `ended` without an outcome: it has run, and how it ended is forgotten. */
export const CancelReply = open({
  ...memory,
  is: Type.Enum(['ended', 'stopping', 'running', 'tombstoned']),
  outcome: optional(WorkerOutcome),
});
export type CancelReply = Static<typeof CancelReply>;

/** `POST /shutdown`: takes nothing new, finishes what runs within the grace, cancels the rest and exits. */
export const ShutdownRequest = Type.Object(
  { grace_ms: optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })) },
  { additionalProperties: false },
);
export type ShutdownRequest = Static<typeof ShutdownRequest>;

/** `GET /health` */
export const WorkerHealth = open({
  status: Type.Enum(['starting', 'ready', 'busy', 'draining', 'failed']),
  worker_id: Type.String(),
  model: Type.String(),
  vram_bytes: Bytes,
  uptime_seconds: Type.Number({ minimum: 0 }),
  slots: Count,
  active: Count,
  context_length: Count,
  registry: Type.String(),
});
export type WorkerHealth = Static<typeof WorkerHealth>;
