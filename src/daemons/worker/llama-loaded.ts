import type { ChatWrapper, Llama, LlamaModel } from 'node-llama-cpp';
import type { Env } from '../../kit/env/env.ts';
import type { LlamaPackage } from './llama-load.ts';

/** What the llama engine has once its model is loaded, as its generator and its embedder use it. */
export interface LoadedModel {
  readonly env: Env;
  readonly package: LlamaPackage;
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly contextLength: number;
  readonly wrapper: ChatWrapper;
  readonly threads: number | undefined;
}
