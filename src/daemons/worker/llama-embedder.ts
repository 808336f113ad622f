/** Texts as rows of numbers. The context for it is made with the first text: few models are used for both. */

import type { LlamaEmbeddingContext } from 'node-llama-cpp';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { loadFailure } from './llama-load.ts';
import type { LoadedModel } from './llama-loaded.ts';

/** Of one text: it is read in one go, which no cancel interrupts. */
const MAX_TOKENS = 2048;

export class LlamaEmbedder {
  readonly #loaded: LoadedModel;
  #context: Promise<LlamaEmbeddingContext> | undefined;

  constructor(loaded: LoadedModel) {
    this.#loaded = loaded;
  }

  async run(texts: readonly string[], signal: AbortSignal): Promise<ExecutionResult> {
    const { model, contextLength } = this.#loaded;
    const most = Math.min(contextLength, MAX_TOKENS);
    const tokens = texts.map((text) => model.tokenize(text));
    const long = tokens.findIndex(({ length }) => length >= most - 1);
    if (long >= 0) {
      throw new OrchdError('CONTEXT_TOO_LONG', `text ${long} has more than ${most - 2} tokens`);
    }
    const context = await this.#open(most);
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
    const options = { contextSize, ...(threads !== undefined && { threads }) };
    this.#context ??= model.createEmbeddingContext(options).catch((error: unknown) => {
      // Memory may be free at the next try.
      this.#context = undefined;
      throw loadFailure(error, found);
    });
    return this.#context;
  }
}
