/**
 * The protocol between the brain and the executor of an upstream, beside the routes of a worker (worker-wire.ts). An
 * upstream is a server with an OpenAI-compatible API that somebody else runs. Its executor makes the calls to it, so that
 * they survive the brain, and follows which models it has.
 */
import { type Static, Type } from 'typebox';
import { ERRORS, type ErrorCode } from './errors.ts';
import { MAX_UPSTREAM_MODELS, MAX_UPSTREAM_SLOTS } from './upstream-limits.ts';

const optional = Type.Optional;
const Count = Type.Integer({ minimum: 0, maximum: 1_000_000_000 });
const open = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: true });

const ModelName = Type.String({ minLength: 1, maxLength: 512 });

/** `PUT /upstream`: where the upstream is, and how it is used. Running executions keep what they have begun with. */
export const UpstreamOrder = Type.Object(
  {
    /** The base URL without `/v1`. */
    url: Type.String({ minLength: 1, maxLength: 1024 }),
    key: optional(Type.String({ minLength: 1, maxLength: 8192 })),
    /** Jobs at a time; without it what the upstream says, else a default. */
    slots: optional(Type.Integer({ minimum: 1, maximum: MAX_UPSTREAM_SLOTS })),
    /** The models that are offered, by the upstream's names, in which `*` stands for any text; all without it. */
    models: optional(Type.Array(ModelName, { maxItems: MAX_UPSTREAM_MODELS })),
    /** Other names for models: from the name that orchd offers to the upstream's name. */
    rename: optional(Type.Record(Type.String(), ModelName)),
    /** Milliseconds between two looks at the list of models. */
    poll_ms: Type.Integer({ minimum: 10, maximum: 86_400_000 }),
  },
  { additionalProperties: false },
);
export type UpstreamOrder = Static<typeof UpstreamOrder>;

/**
 * `GET /upstream?after=VERSION&wait_ms=N` answers as soon as the version differs from `after`, or after `wait_ms`.
 * `status`: `new` until the first look has ended, `up` if the last look has found the models, else `away`.
 */
export const UpstreamState = open({
  version: Count,
  registry: Type.String({ minLength: 1 }),
  status: Type.Enum(['new', 'up', 'away']),
  /** Why it is away. */
  problem: optional(
    open({
      code: Type.Unsafe<ErrorCode>({ type: 'string', enum: Object.keys(ERRORS) }),
      message: Type.String({ maxLength: 4096 }),
    }),
  ),
  slots: Type.Integer({ minimum: 1, maximum: MAX_UPSTREAM_SLOTS }),
  /** The models that it had when it last answered. */
  models: Type.Array(open({ id: ModelName, context_length: optional(Count) }), {
    maxItems: MAX_UPSTREAM_MODELS,
  }),
  /** Models that it had before, the latest last. */
  former: Type.Array(ModelName, { maxItems: MAX_UPSTREAM_MODELS }),
  /** Executions that run, and those whose results were not acknowledged yet. */
  running: Count,
  unacknowledged: Count,
});
export type UpstreamState = Static<typeof UpstreamState>;
