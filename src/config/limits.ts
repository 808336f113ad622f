/** Limits as people write them, and the specs that the brain keeps of them. */
import { Type } from 'typebox';
import { MAX_LIMITS, WrittenLimit } from '../model/http/limits.ts';
import type { LimitSpec } from '../model/limit-records.ts';

export const LimitsSchema = Type.Array(WrittenLimit, {
  default: [],
  maxItems: MAX_LIMITS,
  expected: 'a list of limits, each with a scope and numbers',
});

export const limitSpecs = (limits: readonly WrittenLimit[]): LimitSpec[] =>
  limits.map((limit) => ({
    scope: limit.scope,
    ...(limit.requests_per_sec !== undefined && { requestsPerSec: limit.requests_per_sec }),
    ...(limit.tokens_per_sec !== undefined && { tokensPerSec: limit.tokens_per_sec }),
    ...(limit.burst_requests !== undefined && { burstRequests: limit.burst_requests }),
    ...(limit.burst_tokens !== undefined && { burstTokens: limit.burst_tokens }),
    ...(limit.concurrency !== undefined && { concurrency: limit.concurrency }),
    ...(limit.token_budget !== undefined && { tokenBudget: limit.token_budget }),
    ...(limit.running !== undefined && { running: limit.running }),
    ...(limit.cost_budget !== undefined && { costBudget: limit.cost_budget }),
    ...(limit.window !== undefined && { window: limit.window }),
    ...(limit.time_zone !== undefined && { timeZone: limit.time_zone }),
    ...(limit.hard !== undefined && { hard: limit.hard }),
  }));

export const limitList = (limits: readonly LimitSpec[]): WrittenLimit[] =>
  limits.map((limit) => ({
    scope: limit.scope,
    ...(limit.requestsPerSec !== undefined && { requests_per_sec: limit.requestsPerSec }),
    ...(limit.tokensPerSec !== undefined && { tokens_per_sec: limit.tokensPerSec }),
    ...(limit.burstRequests !== undefined && { burst_requests: limit.burstRequests }),
    ...(limit.burstTokens !== undefined && { burst_tokens: limit.burstTokens }),
    ...(limit.concurrency !== undefined && { concurrency: limit.concurrency }),
    ...(limit.tokenBudget !== undefined && { token_budget: limit.tokenBudget }),
    ...(limit.running !== undefined && { running: limit.running }),
    ...(limit.costBudget !== undefined && { cost_budget: limit.costBudget }),
    ...(limit.window !== undefined && { window: limit.window }),
    ...(limit.timeZone !== undefined && { time_zone: limit.timeZone }),
    ...(limit.hard !== undefined && { hard: limit.hard }),
  }));
