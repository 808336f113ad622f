/** The dialect of Anthropic's `/v1/messages/batches`, for batches with one request. */
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { messageResult } from './anthropic-messages.ts';
import { providerStreamError, turnedAway } from './errors.ts';
import { fieldsOf, isCount, isObject, type JsonObject, textOr } from './json.ts';
import { protocolError } from './protocol-error.ts';

/** The body that creates a batch. `tag` names its only request. */
export const batchBody = (tag: string, params: JsonObject): JsonObject => ({
  requests: [{ custom_id: tag, params }],
});

export interface BatchState {
  readonly id: string;
  readonly hasEnded: boolean;
  /** Where its results are; undefined before the end, and after the provider has deleted them. */
  readonly resultsUrl: string | undefined;
  /** Milliseconds since 1970; undefined where the provider says nothing that can be read. */
  readonly createdAt: number | undefined;
  /** How many requests it has; 0 where the provider does not say. */
  readonly requests: number;
}

export function batchState(batch: JsonObject): BatchState {
  const { id, processing_status: status, results_url: url, created_at: created } = batch;
  if (typeof id !== 'string' || id === '') throw protocolError('sent a batch without an id');
  const createdAt = Date.parse(textOr(created));
  const counts = Object.values(fieldsOf(batch['request_counts'])).filter(isCount);
  return {
    id,
    hasEnded: status === 'ended',
    resultsUrl: typeof url === 'string' ? url : undefined,
    createdAt: Number.isNaN(createdAt) ? undefined : createdAt,
    requests: counts.reduce((sum, count) => sum + count, 0),
  };
}

/** The result for `tag` among the lines of the results; undefined if there is none. */
export function resultLine(text: string, tag: string): JsonObject | undefined {
  for (const line of text.split('\n')) {
    // Only lines that contain the tag are parsed: the results of others may be large.
    if (!line.includes(tag)) continue;
    const value = parsed(line);
    if (value['custom_id'] === tag) return fieldsOf(value['result']);
  }
  return undefined;
}

function parsed(line: string): JsonObject {
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** The result of the request of a batch; throws an OrchdError where it has not succeeded. Only success is charged for. */
export function batchResult(result: JsonObject): ExecutionResult {
  switch (result['type']) {
    case 'succeeded':
      return messageResult(fieldsOf(result['message']));
    case 'errored': {
      const { error } = fieldsOf(result['error']);
      const failure = providerStreamError(error ?? result['error'], false);
      throw new OrchdError(failure.code, failure.message, { ...failure.details, isUncharged: true });
    }
    case 'expired':
      throw turnedAway('overloaded', 'the provider did not come to it before the batch expired', undefined);
    case 'canceled':
      throw new OrchdError('EXECUTION_FAILED', 'the call was cancelled at the provider', {
        retriable: false,
        isUncharged: true,
      });
    default:
      throw protocolError('sent a result of an unknown kind');
  }
}
