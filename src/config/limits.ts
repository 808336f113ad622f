/** Limits as people write them, in the configuration and at run time. */
import { type Static, Type } from 'typebox';
import type { LimitSpec } from '../model/records.ts';

const optional = Type.Optional;
/** The slowest is one in eleven days: what is meant to allow nothing is no rate. */
const Rate = Type.Number({ minimum: 1e-6, maximum: 1e12 });
const Burst = Type.Number({ exclusiveMinimum: 0, maximum: 1e12 });

export const LimitsSchema = Type.Array(
  Type.Object(
    {
      scope: Type.String({ minLength: 1, maxLength: 400 }),
      requests_per_sec: optional(Rate),
      tokens_per_sec: optional(Rate),
      burst_requests: optional(Burst),
      burst_tokens: optional(Burst),
      concurrency: optional(Type.Integer({ minimum: 1, maximum: 1e9 })),
      token_budget: optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
    },
    { additionalProperties: false },
  ),
  { default: [], maxItems: 10_000, expected: 'a list of limits, each with a scope and numbers' },
);

type WrittenLimits = Static<typeof LimitsSchema>;

export const limitSpecs = (limits: WrittenLimits): LimitSpec[] =>
  limits.map((limit) => ({
    scope: limit.scope,
    ...(limit.requests_per_sec !== undefined && { requestsPerSec: limit.requests_per_sec }),
    ...(limit.tokens_per_sec !== undefined && { tokensPerSec: limit.tokens_per_sec }),
    ...(limit.burst_requests !== undefined && { burstRequests: limit.burst_requests }),
    ...(limit.burst_tokens !== undefined && { burstTokens: limit.burst_tokens }),
    ...(limit.concurrency !== undefined && { concurrency: limit.concurrency }),
    ...(limit.token_budget !== undefined && { tokenBudget: limit.token_budget }),
  }));

export const limitList = (limits: readonly LimitSpec[]): WrittenLimits =>
  limits.map((limit) => ({
    scope: limit.scope,
    ...(limit.requestsPerSec !== undefined && { requests_per_sec: limit.requestsPerSec }),
    ...(limit.tokensPerSec !== undefined && { tokens_per_sec: limit.tokensPerSec }),
    ...(limit.burstRequests !== undefined && { burst_requests: limit.burstRequests }),
    ...(limit.burstTokens !== undefined && { burst_tokens: limit.burstTokens }),
    ...(limit.concurrency !== undefined && { concurrency: limit.concurrency }),
    ...(limit.tokenBudget !== undefined && { token_budget: limit.tokenBudget }),
  }));
