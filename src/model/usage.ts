/**
 * The tokens of an execution as counts that do not overlap, so that each can have a price of its own. Providers count
 * in other ways: some include cached tokens in the input and reasoning in the output.
 */
export interface TokenCounts {
  /** Input tokens that were neither read from a cache nor written to one. */
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  /** Output tokens without those of reasoning. */
  readonly output: number;
  readonly reasoning: number;
}

/** Counts as they go over the wire: totals in OpenAI's spelling, and the parts of them that are known. */
export interface WireUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cache_read_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly reasoning_tokens?: number;
}

/** A part that is larger than its total is cut: a provider that contradicts itself must not make a count negative. */
export function countsOf(usage: WireUsage): TokenCounts {
  const { prompt_tokens: prompt, completion_tokens: completion } = usage;
  const cacheRead = Math.min(usage.cache_read_tokens ?? 0, prompt);
  const cacheWrite = Math.min(usage.cache_write_tokens ?? 0, prompt - cacheRead);
  const reasoning = Math.min(usage.reasoning_tokens ?? 0, completion);
  return {
    input: prompt - cacheRead - cacheWrite,
    cacheRead,
    cacheWrite,
    output: completion - reasoning,
    reasoning,
  };
}

export const sumOf = (a: TokenCounts, b: TokenCounts): TokenCounts => ({
  input: a.input + b.input,
  cacheRead: a.cacheRead + b.cacheRead,
  cacheWrite: a.cacheWrite + b.cacheWrite,
  output: a.output + b.output,
  reasoning: a.reasoning + b.reasoning,
});

export const promptTokens = ({ input, cacheRead, cacheWrite }: TokenCounts): number =>
  input + cacheRead + cacheWrite;

export const completionTokens = ({ output, reasoning }: TokenCounts): number => output + reasoning;

export const totalTokens = (counts: TokenCounts): number => promptTokens(counts) + completionTokens(counts);
