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

/** Uses the installed binaries only: nothing is downloaded or compiled. */
export async function openLlama(
  { getLlama, LlamaLogLevel }: LlamaPackage,
  gpu: 'auto' | 'off',
): Promise<Llama> {
  try {
    return await getLlama({
      gpu: gpu === 'off' ? false : 'auto',
      build: 'never',
      skipDownload: true,
      progressLogs: false,
      logLevel: LlamaLogLevel.error,
      // The package must not write to standard output, which is the log of the worker.
      logger: () => undefined,
    });
  } catch (error) {
    const message = 'node-llama-cpp has no binary that runs on this machine';
    throw new OrchdError('WORKER_START_FAILED', message, {}, { cause: error });
  }
}

/** The error for a failed load, without the message of the package, which may contain paths. */
export function loadFailure(error: unknown, { InsufficientMemoryError }: LlamaPackage): OrchdError {
  if (error instanceof OrchdError) return error;
  const cause = { cause: error };
  if (error instanceof InsufficientMemoryError) {
    return new OrchdError('INSUFFICIENT_VRAM', 'there is not enough memory for the model', {}, cause);
  }
  const code = (error as { code?: unknown }).code;
  if (code === 'ENOENT') return new OrchdError('MODEL_NOT_FOUND', 'there is no such model file', {}, cause);
  return new OrchdError('WORKER_START_FAILED', 'the file is not a model that can be loaded', {}, cause);
}
