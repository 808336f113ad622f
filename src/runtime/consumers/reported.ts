/** Turns the results that consumers report into outcomes for the engine. */
import type { ConsumerOutcome } from '../../core/attempts/claims.ts';
import type { ExecutionOutcome, UsedTokens } from '../../core/ports/backend.ts';
import type { ConsumerResults } from '../../model/http/consumers.ts';
import type { AskRecord } from '../../model/records.ts';
import { reportedError } from '../../model/reported-error.ts';
import { countsOf } from '../../model/usage.ts';
import type { Outcomes } from '../outcomes.ts';

export type ReportedResult = ConsumerResults['results'][number];

type ReportedUsage = Extract<ReportedResult, { ok: true }>['usage'];

/** A result of an attempt that is open, with its body stored if it is large. */
export async function outcomeOf(
  result: ReportedResult,
  ask: AskRecord,
  outcomes: Outcomes,
): Promise<ConsumerOutcome> {
  if ('returned' in result) return { ok: 'returned' };
  if ('unknown' in result) return { ok: 'unknown', finding: await outcomes.forgotten(result.message, ask) };
  return outcomes.recorded(executionOf(result), ask);
}

function executionOf(
  result: Exclude<ReportedResult, { returned: true } | { unknown: true }>,
): ExecutionOutcome {
  const usage = usageOf(result.usage);
  if ('cancelled' in result) return { ok: 'cancelled', ...usage };
  if (result.ok) return { ok: true, resultText: JSON.stringify(result.result) ?? 'null', ...usage };
  const { code = 'EXECUTION_FAILED', message, retriable = false } = result.error;
  const error = reportedError({ code, message, retriable });
  const { retry_after_ms: retryAfterMs } = result;
  return { ok: false, error, ...(retryAfterMs !== undefined && { retryAfterMs }), ...usage };
}

function usageOf(usage: ReportedUsage): { usage?: UsedTokens } {
  if (!usage) return {};
  const { prompt_tokens = 0, completion_tokens = 0, decode_time_ms: decodeMs = 0, ...parts } = usage;
  return { usage: { ...countsOf({ prompt_tokens, completion_tokens, ...parts }), decodeMs } };
}
