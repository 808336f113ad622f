/** Limits as people write them, in the configuration and over HTTP. */
import { type Static, Type } from 'typebox';
import { answerObject } from './shape.ts';

const optional = Type.Optional;
/** The slowest rate is one in eleven days: what is meant to allow nothing is no rate. */
const Rate = Type.Number({ minimum: 1e-6, maximum: 1e12 });
const Burst = Type.Number({ exclusiveMinimum: 0, maximum: 1e12 });

export const MAX_LIMITS = 10_000;

export const WrittenLimit = Type.Object(
  {
    scope: Type.String({ minLength: 1, maxLength: 400 }),
    requests_per_sec: optional(Rate),
    tokens_per_sec: optional(Rate),
    burst_requests: optional(Burst),
    burst_tokens: optional(Burst),
    concurrency: optional(Type.Integer({ minimum: 1, maximum: 1e9 })),
    token_budget: optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
  },
  { title: 'Limit', additionalProperties: false },
);
export type WrittenLimit = Static<typeof WrittenLimit>;

export const SetLimits = Type.Object(
  { limits: Type.Array(WrittenLimit, { maxItems: MAX_LIMITS }) },
  { additionalProperties: false },
);

export const LimitsView = answerObject('Limits', { limits: Type.Array(WrittenLimit) });
