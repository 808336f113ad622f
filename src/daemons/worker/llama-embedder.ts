/** Makes embeddings. Its context is created at the first call, because few models are used for chat and embeddings. */

import type { LlamaEmbeddingContext } from 'node-llama-cpp';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { loadFailure } from './llama-load.ts';
import type { LoadedModel } from './llama-loaded.ts';

/** The longest text: a text is evaluated in one call, which a cancel cannot interrupt. */
const MAX_TEXT_TOKENS = 2048;

export class LlamaEmbedder {
  readonly #loaded: LoadedModel;
  #context: Promise<LlamaEmbeddingContext> | undefined;

  constructor(loaded: LoadedModel) {
    this.#loaded = loaded;
  }

  async run(texts: readonly string[], signal: AbortSignal): Promise<ExecutionResult> {
    const { model, contextLength } = this.#loaded;
    const maxTokens = Math.min(contextLength, MAX_TEXT_TOKENS);
    const tokens = texts.map((text) => model.tokenize(text));
    const tooLong = tokens.findIndex(({ length }) => length >= maxTokens - 1);
    if (tooLong >= 0) {
      throw new OrchdError('CONTEXT_TOO_LONG', `text ${tooLong} has more than ${maxTokens - 2} tokens`);
    }
    const context = await this.#open(maxTokens);
    const embeddings: number[][] = [];
    for (const each of tokens) {
      signal.throwIfAborted();
      embeddings.push([...(await context.getEmbeddingFor(each)).vector]);
    }
    const promptTokens = tokens.reduce((sum, { length }) => sum + length, 0);
    return { embeddings, usage: { prompt_tokens: promptTokens, completion_tokens: 0 } };
  }

  #open(contextSize: number): Promise<LlamaEmbeddingContext> {
    const { model, threads, package: found } = this.#loaded;
    this.#context ??= model.createEmbeddingContext({ contextSize, threads }).catch((error: unknown) => {
      // A failure is not kept: memory may be free at the next call.
      this.#context = undefined;
      throw loadFailure(error, found);
    });
    return this.#context;
  }
}
