/** The provider for the AI SDK: `orchd({ run: 'my-run' })('my-model')` is a model whose calls are jobs of the queue. */
import type { LanguageModelV4, ProviderV4 } from '@ai-sdk/provider';
import { NoSuchModelError } from 'ai';
import { type ClientOptions, DEFAULT_URL, OrchdClient } from '../client/client.ts';
import { CallIds, checkRun } from './call-ids.ts';
import { QueuedLanguageModel } from './model.ts';
import type { JobOptions } from './request.ts';

export interface OrchdOptions extends ClientOptions {
  /**
   * Names what this program does, and stays the same when it is started again: its calls then find the jobs of the former
   * start. Without it every call is a new job, which is cancelled when the program dies.
   */
  readonly run?: string;
  /** Options of every job, such as `session_id`, `priority` or `tags`. */
  readonly job?: JobOptions;
  /** How long a call waits for a brain that cannot be reached; a minute by default. */
  readonly patienceMs?: number;
  /** URLs of files that the backends fetch themselves; the AI SDK downloads all others. None by default. */
  readonly supportedUrls?: Record<string, RegExp[]>;
}

export interface OrchdProvider extends ProviderV4 {
  (modelId: string): LanguageModelV4;
  languageModel(modelId: string): LanguageModelV4;
}

export function orchd(options: OrchdOptions = {}): OrchdProvider {
  const { run, job = {}, patienceMs, supportedUrls = {}, url = DEFAULT_URL } = options;
  const settings = {
    client: new OrchdClient(options),
    url,
    ids: new CallIds(),
    run: run === undefined ? undefined : checkRun(run),
    job,
    patienceMs,
    supportedUrls,
  };
  const languageModel = (modelId: string): LanguageModelV4 => new QueuedLanguageModel(modelId, settings);
  return Object.assign(languageModel, {
    specificationVersion: 'v4' as const,
    languageModel,
    embeddingModel: (modelId: string) => noModel(modelId, 'embeddingModel'),
    imageModel: (modelId: string) => noModel(modelId, 'imageModel'),
  });
}

function noModel(modelId: string, modelType: 'embeddingModel' | 'imageModel'): never {
  throw new NoSuchModelError({
    modelId,
    modelType,
    message: 'orchd has only language models for the AI SDK',
  });
}
