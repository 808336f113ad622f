/**
 * The protocol between the brain and a worker. A worker has one model; it keeps the events and the result of every
 * execution until they are acknowledged, or until it needs the memory.
 */
import { type Static, Type } from 'typebox';
import { AnyObject } from './http/shape.ts';
import { TURNED_AWAY_REASONS } from './reasons.ts';

const optional = Type.Optional;
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** The longest id of a conversation that a provider keeps; mostly it is a URL. */
export const MAX_THREAD_CHARS = 2048;

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** An object in which unknown fields, sent by a newer version, are ignored. */
const open = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: true });

/** The brain that gives an order: its owner id and its epoch. */
export interface Commander {
  readonly owner: string;
  readonly epoch: number;
  /**
   * Made at random when the store was opened with this epoch. Two brains with the same epoch and different nonces run on
   * two copies of one store.
   */
  readonly nonce?: string | undefined;
}

/** One opening of a store, as an executor remembers it. */
export type Opening = Pick<Commander, 'epoch' | 'nonce'>;

/** The Commander, on every order to a worker or a pool manager: an older epoch of the same owner is refused. */
export const OWNER_HEADER = 'x-orchd-owner';
export const EPOCH_HEADER = 'x-orchd-epoch';
export const NONCE_HEADER = 'x-orchd-nonce';
/** The hash of the job's body, where its id was chosen by a caller: a token with another body is another execution. */
export const HASH_HEADER = 'x-orchd-hash';
/**
 * The registry that an offer is meant for: a worker with another one answers busy.
 *
 * `registry`: id of the worker's table of executions; a new id means that it has lost the old table.
 * `remembered_since`: it knows every token offered after this time.
 */
export const REGISTRY_HEADER = 'x-orchd-registry';
/** The token of the attempt. */
export const TOKEN_HEADER = 'idempotency-key';

/** `POST /execute`: the payload of the job, with fields that the brain adds. */
export const ExecuteRequest = open({
  job_id: Type.String({ minLength: 1, maxLength: 256 }),
  session_id: optional(Type.String({ maxLength: MAX_THREAD_CHARS })),
  /** The model as the caller named it, to be repeated in the answer. */
  model: optional(Type.String({ maxLength: 1024 })),
  prompt: optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  /** The prompt is a text to go on with, and no question to a chat: only upstreams look at it. */
  raw_prompt: optional(Type.Unknown()),
  messages: optional(Type.Array(AnyObject)),
  /** Texts to embed, instead of a prompt or messages. */
  input: optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  max_tokens: optional(Type.Union([Count, Type.Null()])),
  temperature: optional(Type.Union([Type.Number(), Type.Null()])),
  top_p: optional(Type.Union([Type.Number(), Type.Null()])),
  seed: optional(Type.Union([Type.Integer(), Type.Null()])),
  stop: optional(Type.Union([Type.String(), Type.Array(Type.String()), Type.Null()])),
  tools: optional(Type.Array(AnyObject)),
  tool_choice: optional(Type.Unknown()),
  response_format: optional(Type.Unknown()),
});
export type ExecuteRequest = Static<typeof ExecuteRequest>;

/** A function call that the model requests. */
export const ToolCall = open({
  id: Type.String(),
  type: Type.Literal('function'),
  function: open({ name: Type.String(), arguments: Type.String() }),
});
export type ToolCall = Static<typeof ToolCall>;

/** `prompt_tokens` includes what was read from a cache or written to one; `completion_tokens` includes reasoning. */
export const Usage = open({
  prompt_tokens: Count,
  completion_tokens: Count,
  cache_read_tokens: optional(Count),
  cache_write_tokens: optional(Count),
  reasoning_tokens: optional(Count),
  /** The call was ended before the provider had counted all that it charges for. */
  partial: optional(Type.Boolean()),
});
export type Usage = Static<typeof Usage>;

/** The result of an execution, which becomes the job's `result`. An embedding has no `text`. */
/** HeardMessages of heard.ts. */
export const Heard = open({ messages: Count, hash: Type.String({ maxLength: 64 }) });

export const ExecutionResult = open({
  text: optional(Type.String()),
  finish_reason: optional(
    Type.Enum(['stop', 'length', 'tool_calls', 'content_filter'], { description: 'Why it ended' }),
  ),
  tool_calls: optional(Type.Array(ToolCall)),
  /** What the model has thought before its answer, where the provider shows it. */
  reasoning: optional(Type.String()),
  embeddings: optional(Type.Array(Type.Array(Type.Number()))),
  usage: optional(Usage),
  /** The provider's own conversation that the answer belongs to, for a seat that keeps such. */
  thread_id: optional(Type.String({ maxLength: MAX_THREAD_CHARS })),
  /** What that conversation has heard, this answer included. */
  heard: optional(Heard),
});
export type ExecutionResult = Static<typeof ExecutionResult>;

/*
 * The events of an execution are numbered from 1; the number is the id of the event. First comes `started`, then a `token`
 * for every piece of the answer, `metrics` now and then, and at last either `end` or `error`.
 */

/** The execution has begun. */
export const StartedEvent = open({
  job_id: Type.String(),
  model: optional(Type.String()),
  started_at: Type.Integer(),
});
/**
 * The most characters of JSON in an event that is not the last one. The brain parses it in one turn, and ends an execution
 * that sends a longer one. Only `end`, which carries the result, may be longer.
 */
export const MAX_PROGRESS_CHARS = 64 * 1024;

/** A piece of the answer. A piece that is not text has an empty `t` and a `delta` in OpenAI's form. */
export const TokenEvent = open({
  t: Type.String(),
  /** The number of the piece, from 0. */
  i: Count,
  delta: optional(
    open({
      tool_calls: optional(Type.Array(Type.Unknown())),
      reasoning_content: optional(Type.String()),
    }),
  ),
});
export type TokenEvent = Static<typeof TokenEvent>;
/** The execution has succeeded. */
export const EndEvent = open({
  /** The tokens of the answer or, if the engine does not count them, the number of `token` events. */
  tokens_out: Count,
  /** The time from the first piece of the answer to the end; 0 if there was no piece. */
  decode_time_ms: Type.Number({ minimum: 0 }),
  /** The time from the arrival of the request to the first piece. */
  first_token_ms: optional(Type.Number({ minimum: 0 })),
  result: ExecutionResult,
});
export type EndEvent = Static<typeof EndEvent>;
/** The error that ended an execution. A cancelled one has the code CANCELLED. */
export const ErrorEvent = open({
  code: Type.String(),
  message: Type.String(),
  retriable: Type.Boolean(),
  /** A more specific code. */
  reason: optional(Type.String()),
  retry_after_ms: optional(Type.Number({ minimum: 0 })),
  /** Set where the provider has done nothing for the request: the job may be tried again, and no try was used up. */
  turned_away: optional(Type.Enum([...TURNED_AWAY_REASONS])),
  /** The tokens that the provider counted before the error. */
  usage: optional(Usage),
});
export type ErrorEvent = Static<typeof ErrorEvent>;

/** How an execution ended, for readers that do not follow its events. */
export const WorkerOutcome = Type.Union([
  open({
    ok: Type.Literal(true),
    result: ExecutionResult,
    /** The same as in the `end` event. */
    decode_time_ms: optional(Type.Number({ minimum: 0 })),
  }),
  open({ ok: Type.Literal(false), error: ErrorEvent }),
  open({ ok: Type.Literal('cancelled'), usage: optional(Usage) }),
]);
export type WorkerOutcome = Static<typeof WorkerOutcome>;

/** What the worker can know about tokens; see REGISTRY_HEADER. */
const memory = {
  registry: Type.String({ minLength: 1 }),
  remembered_since: Type.Integer(),
  /** The worker's wall clock, by which `remembered_since` is to be read. */
  now: optional(Type.Integer()),
};

/** The opening of the owner's store that commanded this worker before the present one. */
const opening_before = optional(open({ epoch: Count, nonce: optional(Type.String()) }));

/** `GET /running`: how many executions run for the requesting owner, and for others. */
export const RunningCount = open({ own: Count, others: Count });
export type RunningCount = Static<typeof RunningCount>;

/** `GET /executions`: the executions of the requesting owner, without results; `GET /executions/{token}` has those. */
export const ExecutionList = open({
  ...memory,
  opening_before,
  executions: Type.Array(
    open({
      token: Type.String(),
      job_id: Type.String(),
      state: Type.Enum(['running', 'ended']),
      /** The same as in HASH_HEADER. */
      hash: optional(Type.String()),
    }),
  ),
});
export type ExecutionList = Static<typeof ExecutionList>;

/**
 * `GET /executions/{token}`, with the token URL-encoded. `ended` without an outcome: it has run, but its outcome was
 * dropped to free memory.
 */
export const ExecutionState = open({
  token: Type.String(),
  job_id: Type.String(),
  state: Type.Enum(['running', 'ended']),
  outcome: optional(WorkerOutcome),
});
export type ExecutionState = Static<typeof ExecutionState>;

/**
 * `POST /cancel`: about the execution of a token or, without `token`, all executions of a job. A token that is unknown is
 * refused from then on. `end` (default) stops the execution. `bury` stops nothing: it only makes sure that a token which
 * has not arrived yet never starts.
 */
export const CancelRequest = Type.Object(
  {
    job_id: Type.String({ minLength: 1, maxLength: 256 }),
    token: optional(Type.String({ minLength: 1, maxLength: 300 })),
    how: optional(Type.Enum(['end', 'bury'])),
  },
  { additionalProperties: false },
);
/**
 * `is`:
 *   ended        the execution has ended; without `outcome` its outcome is no longer known
 *   stopping     the execution was told to stop and has not ended yet
 *   running      the execution goes on (only with `bury`)
 *   tombstoned   the token was unknown; an offer with it is refused from now on
 */
export const CancelReply = open({
  ...memory,
  is: Type.Enum(['ended', 'stopping', 'running', 'tombstoned']),
  outcome: optional(WorkerOutcome),
  /** The same as in HASH_HEADER, for a token that is known. */
  hash: optional(Type.String()),
  opening_before,
});
export type CancelReply = Static<typeof CancelReply>;

/** `POST /shutdown`: the worker takes no new jobs, finishes what it can within `grace_ms`, cancels the rest and exits. */
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
  /** The file of the LoRA adapter that is applied to the model. */
  adapter: optional(Type.String()),
  variant: optional(Type.String()),
  vram_bytes: Bytes,
  uptime_seconds: Type.Number({ minimum: 0 }),
  slots: Count,
  active: Count,
  context_length: Count,
  registry: Type.String(),
});
export type WorkerHealth = Static<typeof WorkerHealth>;
