/** One execution on a worker: its event log, its abort signal and its outcome. */
import type { Clock } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type {
  ErrorEvent,
  ExecutionResult,
  TokenEvent,
  Usage,
  WorkerOutcome,
} from '../../model/worker-wire.ts';
import type { AnswerPiece } from './engine.ts';
import { EventLog } from './event-log.ts';
import { splitPiece } from './split-piece.ts';

export interface ExecutionOptions {
  readonly owner: string;
  readonly token: string;
  readonly jobId: string;
  /** The hash of the body, see HASH_HEADER. */
  readonly hash?: string | undefined;
  readonly model: string;
  readonly clock: Clock;
  readonly maxLogBytes: number;
}

/** Minimum time between two `metrics` events. */
const METRICS_INTERVAL_MS = 2000;
/** The largest result as JSON: it is sent as one event, and readers limit the size of an event. */
const MAX_RESULT_CHARS = 32 * 2 ** 20;

export class Execution {
  readonly owner: string;
  readonly token: string;
  readonly jobId: string;
  readonly hash: string | undefined;
  readonly log: EventLog;
  readonly #clock: Clock;
  readonly #abort = new AbortController();
  readonly #startedAt: number;
  #firstPieceAt: number | undefined;
  #metricsAt: number;
  #pieces = 0;
  #outcome: WorkerOutcome | undefined;
  #outcomeChars = 0;
  #interrupted = false;
  #usage: Usage | undefined;

  constructor(options: ExecutionOptions) {
    this.owner = options.owner;
    this.token = options.token;
    this.jobId = options.jobId;
    this.hash = options.hash;
    this.#clock = options.clock;
    this.#startedAt = options.clock.monotonic();
    this.#metricsAt = this.#startedAt;
    this.log = new EventLog(options.maxLogBytes);
    this.log.append('started', {
      job_id: options.jobId,
      model: options.model,
      started_at: options.clock.now(),
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get outcome(): WorkerOutcome | undefined {
    return this.#outcome;
  }

  /** About how much memory it takes; a result counts twice, as an event and as the outcome. */
  get bytes(): number {
    return this.log.bytes + this.#outcomeChars;
  }

  cancel(): void {
    if (!this.#outcome) this.#abort.abort();
  }

  /** Stops the execution without an order of the brain: the worker is shut down, and its outcome stays unknown. */
  interrupt(): void {
    if (this.#outcome || this.signal.aborted) return;
    this.#interrupted = true;
    this.#abort.abort();
  }

  emit(piece: AnswerPiece): void {
    const now = this.#clock.monotonic();
    this.#firstPieceAt ??= now;
    for (const part of splitPiece(piece)) {
      this.log.append('token', tokenEvent(part, this.#pieces++));
    }
    if (now - this.#metricsAt < METRICS_INTERVAL_MS) return;
    this.#metricsAt = now;
    const seconds = Math.max(now - this.#firstPieceAt, 1) / 1000;
    this.log.append('metrics', {
      tokens_out: this.#pieces,
      tokens_per_second: Math.round((this.#pieces / seconds) * 10) / 10,
    });
  }

  /** Keeps the tokens counted so far, for an end that is no success. */
  noteUsage(usage: Usage): void {
    this.#usage = usage;
  }

  succeed(result: ExecutionResult): void {
    this.#outcomeChars = JSON.stringify(result).length;
    if (this.#outcomeChars > MAX_RESULT_CHARS) {
      this.#outcomeChars = 0;
      this.fail(new OrchdError('EXECUTION_FAILED', 'the result is too large to be sent'));
      return;
    }
    const now = this.#clock.monotonic();
    const decode_time_ms = Math.round(now - (this.#firstPieceAt ?? now));
    this.#outcome = { ok: true, result, decode_time_ms };
    this.log.append('end', {
      tokens_out: result.usage?.completion_tokens ?? this.#pieces,
      decode_time_ms,
      ...(this.#firstPieceAt !== undefined && {
        first_token_ms: Math.round(this.#firstPieceAt - this.#startedAt),
      }),
      result,
    });
  }

  /** Ends the execution with what the engine threw: as cancelled where it was cancelled before, else as failed. */
  fail(thrown: unknown): void {
    const error = this.#errorOf(thrown);
    const usage = this.#usage;
    const event = errorEvent(error, usage);
    this.#outcome =
      error.code === 'CANCELLED' ? { ok: 'cancelled', ...(usage && { usage }) } : { ok: false, error: event };
    this.log.append('error', event);
  }

  #errorOf(thrown: unknown): OrchdError {
    if (this.#interrupted)
      return new OrchdError('UNKNOWN_OUTCOME', 'the worker was stopped before its execution ended');
    if (this.signal.aborted) return new OrchdError('CANCELLED');
    return thrown instanceof OrchdError ? thrown : new OrchdError('EXECUTION_FAILED', 'the engine failed');
  }
}

function tokenEvent(piece: AnswerPiece, i: number): TokenEvent {
  if ('text' in piece) return { t: piece.text, i };
  if ('reasoning' in piece) return { t: '', i, delta: { reasoning_content: piece.reasoning } };
  return { t: '', i, delta: { tool_calls: [...piece.toolCalls] } };
}

function errorEvent(error: OrchdError, usage: Usage | undefined): ErrorEvent {
  const { reason, retryAfterMs, turnedAway } = error.details;
  return {
    code: error.code,
    message: error.message.slice(0, 2000),
    retriable: error.retriable,
    ...(reason !== undefined && { reason }),
    ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
    ...(turnedAway !== undefined && { turned_away: turnedAway }),
    ...(usage && { usage }),
  };
}
