/** Turns a start order into the command line, environment and memory need of a worker process. */
import type { Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { formatModelRef, type ModelRef, parseModelRef, plainRef } from '../../model/model-ref.ts';
import type { DeviceState, ResolvedModel, StartWorker } from '../../model/pool-wire.ts';
import { estimateVram } from '../../model/vram.ts';
import type { EngineRule } from './config.ts';
import { appliesAdapters, argvOf, engineFor, hasRule, numberOption, ruleFor } from './engines.ts';
import type { LocatedAdapter, LocatedModel, ModelFiles } from './model-files.ts';

export interface Launch {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly secret: string;
  readonly vramBytes: number;
}

export interface LaunchesOptions {
  readonly env: Env;
  readonly models: ModelFiles;
  readonly rules: readonly EngineRule[];
  readonly command: readonly string[];
  /** Arguments added to the command line of every worker. */
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** The address on which workers listen. */
  readonly workerHost: string;
  readonly slots: number;
  /** The longest context that a worker gets unless its order asks for more. */
  readonly contextLength: number;
  /** Whether a worker on a GPU may run its model on the CPU where its engine cannot use the GPU. */
  readonly allowCpuFallback: boolean;
  /** The time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** The URL of this manager, where a worker reports that it is ready. */
  readonly ownUrl: () => string;
}

const SECRET_BYTES = 32;
/** The part of graceMs that is left for the process to exit after its executions have ended. */
const EXIT_MARGIN_MS = 2000;

export class Launches {
  readonly #options: LaunchesOptions;

  constructor(options: LaunchesOptions) {
    this.#options = options;
  }

  async prepare(id: string, order: StartWorker, ref: ModelRef, kind: DeviceState['kind']): Promise<Launch> {
    const { env, rules, command, args, environment, workerHost, ownUrl, graceMs } = this.#options;
    const { model, adapter } = await this.#located(ref);
    const plain = plainRef(ref);
    // The engine is chosen by the model's name, not by its resolved path: the hub cache stores files without extension.
    const engine = engineFor(formatModelRef(plain), plain, model?.ref, rules);
    if (adapter && !appliesAdapters(engine.name, command))
      throw new OrchdError('UNSUPPORTED', `the engine "${engine.name}" of this pool cannot apply an adapter`);
    const extra = [...args, ...engine.args];
    // If an option is given twice, the last one counts for the worker: the estimate counts with the same numbers.
    const context = numberOption(extra, '--context') ?? this.#context(order, model);
    const slots = numberOption(extra, '--slots') ?? order.slots ?? this.#options.slots;
    const secret = env.random.hex(SECRET_BYTES);
    const values = {
      id,
      engine: engine.name,
      model: model?.file ?? nameOf(plain),
      file: model?.file,
      adapter: adapter?.file,
      variant: ref.variant,
      model_ref: order.model_ref,
      host: workerHost,
      slots: String(slots),
      context: context === undefined ? undefined : String(context),
      gpu: kind === 'cpu' ? 'off' : this.#options.allowCpuFallback ? 'auto' : 'required',
      grace: String(Math.max(0, graceMs - EXIT_MARGIN_MS)),
      pool_manager: ownUrl(),
    };
    const sizeBytes = sizeOf(model, adapter);
    const size = { sizeBytes, kvBytesPerToken: model?.facts.kvBytesPerToken, contextLength: context, slots };
    const vramBytes = order.vram_bytes ?? estimateVram(size);
    return {
      argv: argvOf(command, values, extra),
      env: {
        ...environment,
        // nvidia-smi numbers devices by PCI bus; CUDA programs use another order unless this is set.
        CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
        CUDA_VISIBLE_DEVICES: kind === 'cpu' ? '' : String(order.gpu_id),
        ORCHD_WORKER_TOKEN: secret,
      },
      secret,
      vramBytes,
    };
  }

  /** The model as this pool has it, with its revision and file pinned. */
  async resolve(ref: ModelRef): Promise<ResolvedModel> {
    const { model, adapter } = await this.#located(ref);
    const pinned = model ? { ...ref, ...parseModelRef(model.ref) } : ref;
    const text = formatModelRef(plainRef(ref));
    const { contextLength: context, kvBytesPerToken: perToken } = model?.facts ?? {};
    const { args, rules, slots } = this.#options;
    const extra = [...args, ...(ruleFor(text, rules)?.args ?? [])];
    return {
      model_ref: formatModelRef(pinned),
      size_bytes: sizeOf(model, adapter),
      ...(context !== undefined && { context_length: context }),
      ...(perToken !== undefined && { kv_bytes_per_token: perToken }),
      slots: numberOption(extra, '--slots') ?? slots,
    };
  }

  async #located(ref: ModelRef): Promise<{ model?: LocatedModel; adapter?: LocatedAdapter }> {
    const model = await this.#model(plainRef(ref));
    if (!ref.adapter) return { ...(model && { model }) };
    const adapter = await this.#options.models.locateAdapter(ref.adapter, model?.facts.architecture);
    return { ...(model && { model }), adapter };
  }

  async #model(ref: ModelRef): Promise<LocatedModel | undefined> {
    const { models, rules } = this.#options;
    // Rules of the configuration name models without adapter and variant.
    const text = formatModelRef(ref);
    if (ref.kind === 'file' || ref.kind === 'hf') return models.locate(ref);
    if (hasRule(text, rules) || (ref.kind === 'engine' && ref.scheme === 'demo')) return undefined;
    throw new OrchdError('MODEL_NOT_FOUND', `this pool does not know "${text}"`);
  }

  /** The context length for a worker; undefined where the order has none and the model's own is unknown. */
  #context(order: StartWorker, model: LocatedModel | undefined): number | undefined {
    if (order.context_length !== undefined) return order.context_length;
    const longest = model?.facts.contextLength;
    return longest === undefined ? undefined : Math.min(longest, this.#options.contextLength);
  }
}

const sizeOf = (...files: readonly (LocatedAdapter | undefined)[]): number =>
  files.reduce((sum, file) => sum + (file?.sizeBytes ?? 0), 0);

/** The name by which an engine that needs no file knows the model. */
const nameOf = (ref: ModelRef): string | undefined =>
  ref.kind === 'engine' || ref.kind === 'alias' ? ref.name : undefined;
