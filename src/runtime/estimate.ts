/** How many tokens an inference may take, from its text alone: enough to reserve by, and to refuse what cannot fit. */

import { MAX_TOKENS } from '../model/submit.ts';

export interface Estimate {
  /** The least context that it needs. */
  readonly contextTokens: number;
  /** What it may use in all. */
  readonly tokens: number;
}

/** Of usual text in usual vocabularies; the engine counts for itself. */
const CHARS_PER_TOKEN = 4;
/** What stands around every message. */
const TOKENS_PER_MESSAGE = 4;
/** Of an answer whose length nobody has bounded. */
const USUAL_ANSWER = 256;

interface Inference {
  readonly prompt?: unknown;
  readonly messages?: unknown;
  readonly input?: unknown;
  readonly max_tokens?: unknown;
}

/** Undefined where there is no text to count. */
export function estimateTokens(payload: unknown): Estimate | undefined {
  if (typeof payload === 'string') return estimateTokens({ prompt: payload });
  if (typeof payload !== 'object' || payload === null) return undefined;
  const { prompt, messages, input, max_tokens } = payload as Inference;
  if (prompt === undefined && messages === undefined && input === undefined) return undefined;
  const chars = charsOf(prompt) + charsOf(input) + charsOf(messages);
  const around = Array.isArray(messages) ? messages.length * TOKENS_PER_MESSAGE : 0;
  const asked = Math.ceil(chars / CHARS_PER_TOKEN) + around;
  // Embedding makes no answer.
  if (input !== undefined) return { contextTokens: asked, tokens: asked };
  // Less than nothing would be a credit for the other jobs of a session.
  const isBound = typeof max_tokens === 'number' && Number.isInteger(max_tokens) && max_tokens >= 0;
  const most = isBound ? Math.min(max_tokens, MAX_TOKENS) : undefined;
  return { contextTokens: asked + (most ?? 1), tokens: asked + (most ?? USUAL_ANSWER) };
}

/** Of all texts in it: content may be a text, or parts of which some are texts. */
function charsOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + charsOf(item), 0);
  if (typeof value !== 'object' || value === null) return 0;
  const { content, text } = value as { content?: unknown; text?: unknown };
  return charsOf(content) + charsOf(text);
}
