/**
 * Reads what a worker says: the events of an execution, its outcome, and refusals. The end of an execution carries its
 * result, which may have millions of numbers (embeddings), so a large one is parsed and written in slices.
 */
import type {
  ExecutionEnd,
  ExecutionEvent,
  ExecutionOutcome,
  FollowEnd,
  HeardThread,
  OfferReply,
  UsedTokens,
} from '../../core/ports/backend.ts';
import { checker } from '../../kit/check.ts';
import type { Timers } from '../../kit/env/env.ts';
import { parseInSlices } from '../../kit/json-parser.ts';
import { textInSlices } from '../../kit/json-writer.ts';
import { inSlices, ONE_TURN_BYTES } from '../../kit/slices.ts';
import { type ErrorInfo, OrchdError } from '../../model/errors.ts';
import { BUSY_REASONS } from '../../model/reasons.ts';
import { reportedError } from '../../model/reported-error.ts';
import { countsOf } from '../../model/usage.ts';
import {
  EndEvent,
  ErrorEvent,
  type ExecutionResult,
  MAX_PROGRESS_CHARS,
  type WorkerOutcome,
} from '../../model/worker-wire.ts';
import type { OutboundReply, StreamReply } from '../../wire/outbound.ts';
import type { SseEvent } from '../../wire/sse.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';

const MAX_ERROR_BYTES = 64 * 1024;
/** As large as a result, because the `end` event carries the result. */
const MAX_EVENT_CHARS = 32 * 2 ** 20;

const checkEnd = checker(EndEvent);
const checkError = checker(ErrorEvent);

/** Reads the events of an execution; `lost` where the stream breaks off before the final event. */
export async function readExecution(
  reply: StreamReply,
  on: (event: ExecutionEvent) => void,
  timers: Timers,
): Promise<FollowEnd> {
  let last: SseEvent | undefined;
  await eachEvent(
    reply,
    (event) => {
      if (last) return;
      if (event.event === 'end' || event.event === 'error') last = event;
      else on(executionEvent(event));
    },
    MAX_EVENT_CHARS,
  );
  return last ? endOf(last, timers) : { is: 'lost' };
}

const PROGRESS_EVENTS: ReadonlySet<string> = new Set(['started', 'token', 'metrics']);

function executionEvent({ id, event, data }: SseEvent): ExecutionEvent {
  const n = Number(id);
  if (!PROGRESS_EVENTS.has(event) || !Number.isSafeInteger(n) || n < 1) {
    throw new OrchdError('WORKER_PROTOCOL', 'an event of the worker has no number or no known type');
  }
  if (data.length > MAX_PROGRESS_CHARS) {
    const what = `a ${event} event of the worker has ${data.length} characters, and may have ${MAX_PROGRESS_CHARS}`;
    throw new OrchdError('WORKER_PROTOCOL', what);
  }
  const value = parse(data);
  // Followers are sent the text as one line.
  return { n, type: event as 'token', data: value, text: data.includes('\n') ? JSON.stringify(value) : data };
}

async function endOf({ event, data }: SseEvent, timers: Timers): Promise<ExecutionEnd> {
  const value = await parseAny(data, timers);
  if (event === 'error') return executionEnd({ ok: false, error: checked(checkError, value) }, timers);
  const { result, decode_time_ms } = checked(checkEnd, value);
  return executionEnd({ ok: true, result, decode_time_ms }, timers, data.length);
}

/**
 * The outcome is unknown where the worker has dropped it, and where it says that it cannot tell. `chars` is the length
 * of the text that it came in.
 */
export async function executionEnd(
  outcome: WorkerOutcome | undefined,
  timers: Timers,
  chars = ONE_TURN_BYTES + 1,
): Promise<ExecutionEnd> {
  if (!outcome) return { is: 'forgotten' };
  if (outcome.ok === false && outcome.error.code === 'UNKNOWN_OUTCOME')
    return { is: 'forgotten', why: reportedError(outcome.error).message };
  return { is: 'ended', outcome: await outcomeOf(outcome, timers, chars) };
}

function usedTokens({ usage }: ExecutionResult, decodeMs: number): UsedTokens | undefined {
  return usage && { ...countsOf(usage), decodeMs };
}

const threadOf = ({ thread_id: id, heard }: ExecutionResult): HeardThread | undefined =>
  id === undefined || !heard ? undefined : { id, messages: heard.messages, hash: heard.hash };

async function outcomeOf(outcome: WorkerOutcome, timers: Timers, chars: number): Promise<ExecutionOutcome> {
  if (outcome.ok === true) {
    const { result, decode_time_ms = 0 } = outcome;
    const usage = usedTokens(result, decode_time_ms);
    const isSmall = chars <= ONE_TURN_BYTES;
    const resultText = isSmall ? JSON.stringify(result) : await inSlices(textInSlices(result), timers);
    const thread = threadOf(result);
    return { ok: true, resultText, ...(usage && { usage }), ...(thread && { thread }) };
  }
  const counted = outcome.ok === 'cancelled' ? outcome.usage : outcome.error.usage;
  const partial = counted?.partial === true && { isPartial: true };
  const usage = counted && { usage: { ...countsOf(counted), ...partial } };
  if (outcome.ok === 'cancelled' || outcome.error.code === 'CANCELLED') return { ok: 'cancelled', ...usage };
  const { retry_after_ms, turned_away: why } = outcome.error;
  const error = reportedError(outcome.error);
  const wait = retry_after_ms !== undefined && { retryAfterMs: retry_after_ms };
  // A provider that has counted tokens has done something.
  if (why !== undefined && !counted) return { ok: 'turned_away', why, error, ...wait };
  return { ok: false, error, ...wait, ...usage };
}

export function refusal(error: ErrorInfo & { retryAfterMs?: number }): OfferReply {
  if (error.code === 'FENCED') return { is: 'fenced' };
  if (error.code === 'TOKEN_CONFLICT') return { is: 'conflict' };
  const { retryAfterMs, ...info } = error;
  if (info.code === 'WORKER_BUSY') {
    const why = BUSY_REASONS.find((reason) => reason === info.reason);
    return { is: 'busy', ...(retryAfterMs !== undefined && { retryAfterMs }), ...(why && { why }) };
  }
  return { is: 'refused', error: info };
}

/** The error in the body of a refused offer. Throws where it is not in the agreed form: the worker may run the job. */
export async function readError(reply: StreamReply): Promise<ErrorInfo & { retryAfterMs?: number }> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  await reply.read((piece) => {
    bytes += piece.length;
    if (bytes > MAX_ERROR_BYTES)
      throw new OrchdError('WORKER_PROTOCOL', 'an error of the worker is too long');
    pieces.push(piece);
  });
  const { error } = parse(Buffer.concat(pieces).toString()) as { error?: unknown };
  const { retry_after_ms, ...fields } = checked(checkError, error);
  return { ...reportedError(fields), ...(retry_after_ms !== undefined && { retryAfterMs: retry_after_ms }) };
}

export async function jsonOf(reply: OutboundReply, timers: Timers): Promise<unknown> {
  if (isFenced(reply)) throw new OrchdError('FENCED');
  if (reply.status >= 300) throw new OrchdError('WORKER_PROTOCOL', `the worker answered ${reply.status}`);
  return parseAny(reply.body.toString(), timers);
}

export const isFenced = ({ status, body }: OutboundReply): boolean =>
  status === 409 && body.includes('"FENCED"');

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'what the worker says is not JSON');
  }
}

/** Parses a text of any length. The number of its values is not limited: a worker is not a caller. */
async function parseAny(text: string, timers: Timers): Promise<unknown> {
  if (text.length <= ONE_TURN_BYTES) return parse(text);
  try {
    return await inSlices(parseInSlices(text, Number.POSITIVE_INFINITY), timers);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'what the worker says is not JSON that can be used');
  }
}

function checked<T>(check: (value: unknown) => T, value: unknown): T {
  try {
    return check(value);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'what the worker says does not have the agreed form');
  }
}

export const isProtocolError = (error: unknown): boolean =>
  error instanceof OrchdError && error.code === 'WORKER_PROTOCOL';
