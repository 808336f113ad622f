/** What a worker asks of the thing that holds the model. */
import type { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { Ask } from './ask.ts';

export interface EngineInfo {
  /** What the engine calls its model. */
  readonly model: string;
  readonly vramBytes: number;
  /** How many run at once. */
  readonly slots: number;
  /** Of the prompt and the answer together, in tokens. */
  readonly contextLength: number;
  /** What it can do: `chat`, `completions`, `embeddings`, `tools`, `json_schema`. */
  readonly features: readonly string[];
}

/** A part of the answer: text, or a change to the calls as OpenAI would stream it. */
export type Piece = { readonly text: string } | { readonly toolCalls: readonly unknown[] };

export interface RunContext {
  /** Aborted when the execution is cancelled: the run must end within five seconds, wherever it is. */
  readonly signal: AbortSignal;
  emit(piece: Piece): void;
}

export interface Engine {
  /** Settles when it cannot run anything any more; an engine without it never does. */
  readonly gone?: Promise<OrchdError>;
  /** Makes the model ready. An abort ends it early; a failure is an OrchdError. */
  load(signal: AbortSignal): Promise<EngineInfo>;
  /** Never called for more than `slots` at once. Throws an OrchdError, or anything once the signal is aborted. */
  run(ask: Ask, context: RunContext): Promise<ExecutionResult>;
  stop(): Promise<void>;
}
