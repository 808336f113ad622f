/** The engine that runs a GGUF model in this process, with node-llama-cpp. */
import type { Llama, LlamaContext, LlamaModel } from 'node-llama-cpp';
import type { Env } from '../../kit/env/env.ts';
import { usableCores } from '../../kit/process/cpu-limit.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { Engine, EngineInfo, RunContext } from '../execution/engine.ts';
import type { InferenceRequest } from '../execution/inference-request.ts';
import { LlamaEmbedder } from './llama-embedder.ts';
import { generate } from './llama-generate.ts';
import { type GpuChoice, loadFailure, loadPackage, openLlama, whyNoGpu } from './llama-load.ts';
import type { LoadedModel } from './llama-loaded.ts';
import { Slots } from './llama-slots.ts';
import { defaultThreads } from './llama-threads.ts';

export interface LlamaOptions {
  readonly env: Env;
  readonly path: string;
  /** The file of a LoRA adapter that is applied to the model. */
  readonly adapter?: string | undefined;
  readonly slots: number;
  /** The context length; if undefined, as long as fits into memory. */
  readonly contextLength: number | undefined;
  readonly gpu: GpuChoice;
  /** CPU threads; undefined: see llama-threads.ts. */
  readonly threads: number | undefined;
}

export class LlamaEngine implements Engine {
  readonly #options: LlamaOptions;
  #llama: Llama | undefined;
  #loaded: LoadedModel | undefined;
  #slots: Slots | undefined;
  #embedder: LlamaEmbedder | undefined;
  /** The last errors that the engine has logged. */
  readonly #errors: string[] = [];

  constructor(options: LlamaOptions) {
    this.#options = options;
  }

  async load(signal: AbortSignal): Promise<EngineInfo> {
    const { env, gpu } = this.#options;
    const found = await loadPackage();
    const llama = await openLlama(found, gpu, (text) => this.#keepError(text));
    this.#llama = llama;
    const threads = this.#options.threads ?? defaultThreads(usableCores(), llama.cpuMathCores);
    try {
      if (gpu === 'required') this.#checkOnGpu(await whyNoGpu(found, llama));
      const model = await this.#model(llama, signal);
      if (gpu === 'required') this.#checkOnGpu(model.gpuLayers > 0 ? undefined : NO_LAYER);
      const context = await this.#context(model, threads, signal);
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
      const { adapter } = this.#options;
      // The package applies adapters to text only.
      this.#embedder = adapter === undefined ? new LlamaEmbedder(this.#loaded) : undefined;
      return withAdapter(
        await infoOf(this.#loaded, context),
        adapter === undefined ? 0 : await sizeOf(env, adapter),
      );
    } catch (error) {
      throw loadFailure(error, found);
    }
  }

  async run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const [loaded, slots, embedder] = [this.#loaded, this.#slots, this.#embedder];
    if (!loaded || !slots) throw new OrchdError('WORKER_BUSY', 'the model is not loaded');
    if (request.work.kind === 'embeddings') {
      if (embedder) return embedder.run(request.work.texts, context.signal);
      throw new OrchdError('UNSUPPORTED', 'a model with an adapter makes no embeddings');
    }
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

  #context(model: LlamaModel, threads: number, createSignal: AbortSignal): Promise<LlamaContext> {
    const { slots, contextLength, adapter: lora } = this.#options;
    const contextSize = contextLength ?? 'auto';
    return model.createContext({
      sequences: slots,
      contextSize,
      createSignal,
      threads,
      ...(lora !== undefined && { lora }),
    });
  }

  /** The engine falls back to the processor by itself, where a model is many times slower than its pool expects. */
  #checkOnGpu(why: string | undefined): void {
    if (why === undefined) return;
    const said = this.#errors.length === 0 ? '' : ` (${this.#errors.join('; ')})`;
    throw new OrchdError(
      'WORKER_START_FAILED',
      `the model would run on the processor instead of the GPU: ${why}${said}. allow_cpu_fallback of the pool, or --gpu auto of the worker, accepts that`,
    );
  }

  #keepError(text: string): void {
    this.#errors.push(text.trim().slice(0, MAX_ERROR_CHARS));
    if (this.#errors.length > MAX_ERRORS) this.#errors.shift();
  }
}

const NO_LAYER = 'no layer of the model fits into the free memory of the device';
const MAX_ERRORS = 3;
const MAX_ERROR_CHARS = 300;

async function sizeOf({ disk }: Env, path: string): Promise<number> {
  const file = await disk.open(path, 'read');
  try {
    return await file.size();
  } finally {
    await file.close();
  }
}

const withAdapter = (info: EngineInfo, bytes: number): EngineInfo =>
  bytes === 0
    ? info
    : {
        ...info,
        vramBytes: (info.vramBytes ?? 0) + bytes,
        features: info.features.filter((feature) => feature !== 'embeddings'),
      };

/** `vramBytes` is the machine's memory that the model takes where there is no GPU. */
async function infoOf({ llama, model, threads }: LoadedModel, context: LlamaContext): Promise<EngineInfo> {
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
    threads,
    features: ['chat', 'completions', 'embeddings', 'tools', 'json_schema'],
  };
}
