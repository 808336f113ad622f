/** The interface between a worker and the engine that runs its model. */
import type { OrchdError } from '../../model/errors.ts';
import type { AnswerPiece, InferenceRequest } from '../../model/inference.ts';
import type { ExecutionResult, Usage } from '../../model/worker-wire.ts';

export type { AnswerPiece } from '../../model/inference.ts';

export interface EngineInfo {
  /** The engine's own name of the model. */
  readonly model: string;
  /** The device memory that the model takes, by the engine's own reckoning; undefined where the engine cannot tell. */
  readonly vramBytes: number | undefined;
  /** Maximum number of concurrent executions. */
  readonly slots: number;
  /** The longest context, prompt and answer together, in tokens. */
  readonly contextLength: number;
  /** CPU threads, where the engine computes in this process. */
  readonly threads?: number;
  /** Some of `chat`, `completions`, `embeddings`, `tools`, `json_schema`. */
  readonly features: readonly string[];
}

export interface RunContext {
  /** Aborted when the execution is cancelled: the run must end within five seconds. */
  readonly signal: AbortSignal;
  /** The trace of the caller, for servers that the engine calls. */
  readonly traceparent?: string | undefined;
  emit(piece: AnswerPiece): void;
  /** Keeps the tokens counted so far, which are reported with the end of the execution even if it fails or is cancelled. */
  noteUsage(usage: Usage | undefined): void;
}

export interface Engine {
  /** Settles when the engine has ended and cannot run anything any more; absent where that cannot happen. */
  readonly ended?: Promise<OrchdError>;
  /** Loads the model. An abort ends it early; a failure is an OrchdError. */
  load(signal: AbortSignal): Promise<EngineInfo>;
  /** At most `slots` calls run at a time. Throws an OrchdError, or anything once the signal is aborted. */
  run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult>;
  stop(): Promise<void>;
}
