import type { ChatWrapper, Llama, LlamaModel } from 'node-llama-cpp';
import type { Env } from '../../kit/env/env.ts';
import type { LlamaPackage } from './llama-load.ts';

/** The loaded model of the llama engine, which its generator and its embedder share. */
export interface LoadedModel {
  readonly env: Env;
  readonly package: LlamaPackage;
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly contextLength: number;
  readonly wrapper: ChatWrapper;
  readonly threads: number;
}
