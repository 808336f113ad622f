/** The engine that runs a GGUF model in this process, with node-llama-cpp. */
import type { Llama, LlamaContext, LlamaModel } from 'node-llama-cpp';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { Engine, EngineInfo, RunContext } from './engine.ts';
import type { InferenceRequest } from './inference-request.ts';
import { LlamaEmbedder } from './llama-embedder.ts';
import { generate } from './llama-generate.ts';
import { loadFailure, loadPackage, openLlama } from './llama-load.ts';
import type { LoadedModel } from './llama-loaded.ts';
import { Slots } from './llama-slots.ts';

export interface LlamaOptions {
  readonly env: Env;
  readonly path: string;
  readonly slots: number;
  /** The context length; if undefined, as long as fits into memory. */
  readonly contextLength: number | undefined;
  readonly gpu: 'auto' | 'off';
  /** CPU threads. Undefined: all of them, which is slow where other programs use the CPU too. */
  readonly threads: number | undefined;
}

export class LlamaEngine implements Engine {
  readonly #options: LlamaOptions;
  #llama: Llama | undefined;
  #loaded: LoadedModel | undefined;
  #slots: Slots | undefined;
  #embedder: LlamaEmbedder | undefined;

  constructor(options: LlamaOptions) {
    this.#options = options;
  }

  async load(signal: AbortSignal): Promise<EngineInfo> {
    const { env, gpu, threads } = this.#options;
    const found = await loadPackage();
    const llama = await openLlama(found, gpu);
    this.#llama = llama;
    try {
      const model = await this.#model(llama, signal);
      const context = await this.#context(model, signal);
      this.#loaded = {
        env,
        package: found,
        llama,
        model,
        contextLength: context.contextSize,
        wrapper: found.resolveChatWrapper(model),
        threads,
      };
      this.#slots = new Slots(Array.from({ length: context.totalSequences }, () => context.getSequence()));
      this.#embedder = new LlamaEmbedder(this.#loaded);
      return await infoOf(this.#loaded, context);
    } catch (error) {
      throw loadFailure(error, found);
    }
  }

  async run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const [loaded, slots, embedder] = [this.#loaded, this.#slots, this.#embedder];
    if (!loaded || !slots || !embedder) throw new OrchdError('WORKER_BUSY', 'the model is not loaded');
    if (request.work.kind === 'embeddings') return embedder.run(request.work.texts, context.signal);
    const slot = slots.take(request.sessionId);
    try {
      return await generate(loaded, slot.sequence, request, context);
    } finally {
      slots.release(slot);
    }
  }

  async stop(): Promise<void> {
    await this.#llama?.dispose();
  }

  #model(llama: Llama, loadSignal: AbortSignal): Promise<LlamaModel> {
    return llama.loadModel({ modelPath: this.#options.path, loadSignal });
  }

  #context(model: LlamaModel, createSignal: AbortSignal): Promise<LlamaContext> {
    const { slots, contextLength, threads } = this.#options;
    return model.createContext({
      sequences: slots,
      contextSize: contextLength ?? 'auto',
      createSignal,
      ...(threads !== undefined && { threads }),
    });
  }
}

/** `vramBytes` is the machine's memory that the model takes where there is no GPU. */
async function infoOf({ llama, model }: LoadedModel, context: LlamaContext): Promise<EngineInfo> {
  const { gpuLayers, fileInsights } = model;
  const ofModel = await fileInsights.estimateModelResourceRequirements({ gpuLayers });
  const ofContext = fileInsights.estimateContextResourceRequirements({
    contextSize: context.contextSize,
    modelGpuLayers: gpuLayers,
    sequences: context.totalSequences,
    batchSize: context.batchSize,
  });
  const memoryKind = llama.gpu === false ? 'cpuRam' : 'gpuVram';
  return {
    model: model.filename ?? 'model',
    vramBytes: Math.ceil(ofModel[memoryKind] + ofContext[memoryKind]),
    slots: context.totalSequences,
    contextLength: context.contextSize,
    features: ['chat', 'completions', 'embeddings', 'tools', 'json_schema'],
  };
}
