/** The tokens of an execution without caches and reasoning. */
import type { UsedTokens } from '../../src/core/ports/backend.ts';
import { countsOf } from '../../src/model/usage.ts';

export const usedTokens = (prompt: number, completion: number, decodeMs: number): UsedTokens => ({
  ...countsOf({ prompt_tokens: prompt, completion_tokens: completion }),
  decodeMs,
});
