/** Loads the optional package node-llama-cpp, which runs GGUF models, and translates its load errors. */
import type { Llama } from 'node-llama-cpp';
import { OrchdError } from '../../model/errors.ts';

export type LlamaPackage = typeof import('node-llama-cpp');

export async function loadPackage(): Promise<LlamaPackage> {
  try {
    return await import('node-llama-cpp');
  } catch (error) {
    const message = 'the engine "llama" needs the package "node-llama-cpp": npm install node-llama-cpp';
    throw new OrchdError('CONFIG_INVALID', message, {}, { cause: error });
  }
}

/**
 * Which device runs the model. `auto`: the GPU, and the processor where the engine cannot use the GPU; `off`: the
 * processor; `required`: the GPU, and the start fails where the engine cannot use it.
 */
export const GPU_CHOICES = ['auto', 'off', 'required'] as const;
export type GpuChoice = (typeof GPU_CHOICES)[number];

/** Uses the installed binaries only: nothing is downloaded or compiled. */
export async function openLlama(
  { getLlama, LlamaLogLevel }: LlamaPackage,
  gpu: GpuChoice,
  onError: (text: string) => void,
): Promise<Llama> {
  try {
    return await getLlama({
      gpu: gpu === 'off' ? false : 'auto',
      build: 'never',
      skipDownload: true,
      // Why it uses no GPU goes to standard error; standard output is the log of the worker.
      progressLogs: 'stderr',
      logLevel: LlamaLogLevel.error,
      logger: (_level, message) => onError(message),
    });
  } catch (error) {
    const message = 'node-llama-cpp has no binary that runs on this machine';
    throw new OrchdError('WORKER_START_FAILED', message, {}, { cause: error });
  }
}

/** Why the engine uses no GPU; undefined where it uses one. */
export async function whyNoGpu(
  { getLlamaGpuTypes }: LlamaPackage,
  { gpu }: Pick<Llama, 'gpu'>,
): Promise<string | undefined> {
  if (gpu !== false) return undefined;
  const found = (await getLlamaGpuTypes('supported')).filter((type) => type !== false);
  return found.length === 0
    ? 'node-llama-cpp finds no driver and runtime of a GPU here'
    : `the binaries of node-llama-cpp for ${found.join(' and ')} do not run with the driver of this machine`;
}

/** The error for a failed load, without the message of the package, which may contain paths. */
export function loadFailure(error: unknown, { InsufficientMemoryError }: LlamaPackage): OrchdError {
  if (error instanceof OrchdError) return error;
  const cause = { cause: error };
  if (error instanceof InsufficientMemoryError) {
    return new OrchdError('INSUFFICIENT_VRAM', 'there is not enough memory for the model', {}, cause);
  }
  if (error instanceof Error && /lora adapter/i.test(error.message)) {
    const message = 'the adapter cannot be applied: it was made for another model, or is no adapter';
    return new OrchdError('ADAPTER_INVALID', message, {}, cause);
  }
  const code = (error as { code?: unknown }).code;
  if (code === 'ENOENT') return new OrchdError('MODEL_NOT_FOUND', 'there is no such model file', {}, cause);
  return new OrchdError('WORKER_START_FAILED', 'the file is not a model that can be loaded', {}, cause);
}
