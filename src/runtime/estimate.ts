/**
 * Estimates the tokens of an inference from its text, to reserve budget for it and to refuse what exceeds the context.
 */

import { type Sliced, SliceMeter } from '../kit/slices.ts';
import { MAX_TOKENS } from '../model/submit.ts';
import { contentKind, unboundedField } from './unbounded.ts';

export interface TokenEstimate {
  /** The smallest context that the job can run in. */
  readonly contextTokens: number;
  /** Tokens to reserve for input and answer together. */
  readonly tokens: number;
  /** The most tokens of the answer; undefined where the payload bounds neither them nor what else is charged for. */
  readonly maxOutput: number | undefined;
  readonly messages: number;
  /** Undefined without any. */
  readonly images: number | undefined;
  /** The field of the payload for which `maxOutput` is undefined. */
  readonly unboundedBy: string | undefined;
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
  const { chars, objects, images, unboundedPart } = yield* contentOf([prompt, input, messages], meter);
  const count = Array.isArray(messages) ? messages.length : 0;
  const inputTokens = Math.ceil(chars / CHARS_PER_TOKEN) + count * TOKENS_PER_MESSAGE;
  const content = { messages: Math.max(1, count), images: images === 0 ? undefined : images };
  // An embedding has no answer.
  if (input !== undefined) {
    const isText = prompt === undefined && messages === undefined && objects === 0;
    const unboundedBy = isText ? unboundedField(payload as Fields, 0) : 'input';
    const maxOutput = unboundedBy === undefined ? 0 : undefined;
    return { contextTokens: inputTokens, tokens: inputTokens, maxOutput, unboundedBy, ...content };
  }
  // A negative max_tokens would add to the budget of a session instead of using it.
  const isValidMax = typeof max_tokens === 'number' && Number.isInteger(max_tokens) && max_tokens >= 0;
  const maxTokens = isValidMax ? Math.min(max_tokens, MAX_TOKENS) : undefined;
  return {
    contextTokens: inputTokens + (maxTokens ?? 1),
    tokens: inputTokens + (maxTokens ?? DEFAULT_ANSWER_TOKENS),
    ...boundOf(payload as Fields, maxTokens, unboundedPart),
    ...content,
  };
}

type Fields = Readonly<Record<string, unknown>>;

function boundOf(
  payload: Fields,
  maxTokens: number | undefined,
  unboundedPart: string | undefined,
): Pick<TokenEstimate, 'maxOutput' | 'unboundedBy'> {
  // A larger number is passed on as it is, so that `maxTokens` is no bound then.
  const isBound = maxTokens !== undefined && maxTokens === payload['max_tokens'];
  const by = isBound ? (unboundedPart ?? unboundedField(payload, maxTokens)) : 'max_tokens';
  return { maxOutput: by === undefined ? maxTokens : undefined, unboundedBy: by };
}

interface Content {
  /** The characters of all texts. */
  readonly chars: number;
  /** Messages and parts of them. */
  readonly objects: number;
  readonly images: number;
  /** What nobody knows the cost of. */
  readonly unboundedPart: string | undefined;
}

/** Content may be a text, or an array of parts of which some have text. */
function* contentOf(values: unknown[], meter: SliceMeter): Sliced<Content> {
  let chars = 0;
  let objects = 0;
  let images = 0;
  let unboundedPart: string | undefined;
  while (values.length > 0) {
    const value = values.pop();
    if (typeof value === 'string') chars += value.length;
    else if (Array.isArray(value)) for (const item of value) values.push(item);
    else if (typeof value === 'object' && value !== null) {
      const { content, text } = value as { content?: unknown; text?: unknown };
      values.push(content, text);
      const kind = contentKind(value as Fields);
      objects++;
      if (kind.is === 'image') images++;
      if (kind.is === 'unbounded') unboundedPart ??= `content.${kind.by}`;
    }
    if (meter.spend(1)) yield;
  }
  return { chars, objects, images, unboundedPart };
}
