/** What the fake models answer: the same in every dialect, so that tests can compare. */
import type { Json } from './provider.ts';

export interface Script {
  readonly reasoning: string;
  readonly words: readonly string[];
  readonly call: { readonly id: string; readonly name: string; readonly arguments: string } | undefined;
}

/** The tokens of the prompt, of which some were cached; every word is a token of the answer. */
export const PROMPT_TOKENS = 20;
export const CACHED_TOKENS = 5;
export const REASONING_TOKENS = 3;

export const completionTokens = ({ words, reasoning }: Script): number =>
  words.length + (reasoning === '' ? 0 : REASONING_TOKENS);

/** The tokens of a call by what is charged for them; no token is in two of them. */
export interface BilledTokens {
  readonly plain: number;
  readonly cached: number;
  readonly written: number;
  readonly output: number;
  readonly reasoning: number;
}

/** The tokens that the answer to a request in any dialect takes; `written` of them are written to a cache. */
export function billedTokens(body: Json, written: number): BilledTokens {
  const params = body.requests?.[0]?.params ?? body;
  const { words, reasoning } = scriptOf(messagesIn(params), params);
  return {
    plain: PROMPT_TOKENS - CACHED_TOKENS - written,
    cached: CACHED_TOKENS,
    written,
    output: words.length,
    reasoning: reasoning === '' ? 0 : REASONING_TOKENS,
  };
}

/** Answers with the last text; to `tools` with a call. Thinks aloud if it is told to. */
export function scriptOf(messages: Json, body: Json): Script {
  const prompt = lastText(messages);
  const config = body.generationConfig?.thinkingConfig;
  const thinks = Boolean(body.reasoning_effort ?? body.reasoning ?? body.thinking ?? config);
  const isCall = prompt === 'tools' && Array.isArray(body.tools);
  return {
    reasoning: thinks ? 'Let me think.' : '',
    words: isCall ? [] : (`You said: ${prompt}`.match(/\S+\s*/g) ?? []),
    call: isCall ? { id: 'call_1', name: 'look', arguments: '{"far":true}' } : undefined,
  };
}

/** The last text of a request in any dialect. */
export function promptOf(body: Json): string {
  return lastText(messagesIn(body.requests?.[0]?.params ?? body));
}

const messagesIn = ({ messages, contents, input }: Json): Json =>
  messages ?? contents ?? (typeof input === 'string' ? [{ content: input }] : (input ?? []));

function lastText(messages: Json): string {
  const last = messages.at(-1);
  const content = last?.content ?? last?.parts ?? '';
  if (typeof content === 'string') return content;
  return content.map((part: Json) => (typeof part.text === 'string' ? part.text : `[${part.type}]`)).join('');
}
