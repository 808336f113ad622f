/**
 * Estimates the tokens of an inference from its text, to reserve budget for it and to refuse what exceeds the context.
 */

import { type Sliced, SliceMeter } from '../kit/slices.ts';
import { MAX_TOKENS } from '../model/submit.ts';

export interface TokenEstimate {
  /** The smallest context that the job can run in. */
  readonly contextTokens: number;
  /** Tokens to reserve for input and answer together. */
  readonly tokens: number;
}

/** An average for common text and vocabularies; the engine counts exactly. */
const CHARS_PER_TOKEN = 4;
/** Tokens that the chat template adds to each message. */
const TOKENS_PER_MESSAGE = 4;
/** Reserved for an answer without `max_tokens`. */
const DEFAULT_ANSWER_TOKENS = 256;

interface InferencePayload {
  readonly prompt?: unknown;
  readonly messages?: unknown;
  readonly input?: unknown;
  readonly max_tokens?: unknown;
}

/** Undefined if the payload has no text to count. */
export function estimateTokens(payload: unknown): TokenEstimate | undefined {
  // One slice holds all of it.
  return estimateInSlices(payload, new SliceMeter(Number.POSITIVE_INFINITY)).next().value ?? undefined;
}

/** The same in slices, for a payload of a large body. */
export function* estimateInSlices(payload: unknown, meter: SliceMeter): Sliced<TokenEstimate | undefined> {
  if (typeof payload === 'string') return yield* estimateInSlices({ prompt: payload }, meter);
  if (typeof payload !== 'object' || payload === null) return undefined;
  const { prompt, messages, input, max_tokens } = payload as InferencePayload;
  if (prompt === undefined && messages === undefined && input === undefined) return undefined;
  const chars = yield* charsOf([prompt, input, messages], meter);
  const messageTokens = Array.isArray(messages) ? messages.length * TOKENS_PER_MESSAGE : 0;
  const inputTokens = Math.ceil(chars / CHARS_PER_TOKEN) + messageTokens;
  // An embedding has no answer.
  if (input !== undefined) return { contextTokens: inputTokens, tokens: inputTokens };
  // A negative max_tokens would add to the budget of a session instead of using it.
  const isValidMax = typeof max_tokens === 'number' && Number.isInteger(max_tokens) && max_tokens >= 0;
  const maxTokens = isValidMax ? Math.min(max_tokens, MAX_TOKENS) : undefined;
  return {
    contextTokens: inputTokens + (maxTokens ?? 1),
    tokens: inputTokens + (maxTokens ?? DEFAULT_ANSWER_TOKENS),
  };
}

/**
 * Number of characters in all texts of the values: content may be a text, or an array of parts of which some have text.
 */
function* charsOf(values: unknown[], meter: SliceMeter): Sliced<number> {
  let chars = 0;
  while (values.length > 0) {
    const value = values.pop();
    if (typeof value === 'string') chars += value.length;
    else if (Array.isArray(value)) for (const item of value) values.push(item);
    else if (typeof value === 'object' && value !== null) {
      const { content, text } = value as { content?: unknown; text?: unknown };
      values.push(content, text);
    }
    if (meter.spend(1)) yield;
  }
  return chars;
}
