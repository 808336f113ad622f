/** One execution: its events, how it is told to stop, and how it ended. */
import type { Clock } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ErrorEvent, ExecutionResult, WorkerOutcome } from '../../model/worker-wire.ts';
import type { Piece } from './engine.ts';
import { EventLog } from './event-log.ts';

export interface ExecutionParts {
  readonly owner: string;
  readonly token: string;
  readonly jobId: string;
  readonly model: string;
  readonly clock: Clock;
  readonly maxLogBytes: number;
}

/** Between two events that say how fast it goes. */
const METRICS_MS = 2000;
/** Of a result as JSON: it travels as one event, and readers of events have a bound too. */
const MAX_RESULT_CHARS = 32 * 2 ** 20;

export class Execution {
  readonly owner: string;
  readonly token: string;
  readonly jobId: string;
  readonly log: EventLog;
  readonly #clock: Clock;
  readonly #abort = new AbortController();
  readonly #begun: number;
  #firstPiece: number | undefined;
  #saidMetrics: number;
  #pieces = 0;
  #outcome: WorkerOutcome | undefined;
  #outcomeChars = 0;

  constructor(parts: ExecutionParts) {
    this.owner = parts.owner;
    this.token = parts.token;
    this.jobId = parts.jobId;
    this.#clock = parts.clock;
    this.#begun = parts.clock.monotonic();
    this.#saidMetrics = this.#begun;
    this.log = new EventLog(parts.maxLogBytes);
    this.log.append('started', {
      job_id: parts.jobId,
      model: parts.model,
      started_at: parts.clock.now(),
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get outcome(): WorkerOutcome | undefined {
    return this.#outcome;
  }

  /** What it holds in memory; the result is there twice, as an event and as an outcome. */
  get bytes(): number {
    return this.log.bytes + this.#outcomeChars;
  }

  cancel(): void {
    if (!this.#outcome) this.#abort.abort();
  }

  emit(piece: Piece): void {
    const now = this.#clock.monotonic();
    this.#firstPiece ??= now;
    const i = this.#pieces++;
    this.log.append(
      'token',
      'text' in piece ? { t: piece.text, i } : { t: '', i, delta: { tool_calls: piece.toolCalls } },
    );
    if (now - this.#saidMetrics < METRICS_MS) return;
    this.#saidMetrics = now;
    const seconds = Math.max(now - this.#firstPiece, 1) / 1000;
    this.log.append('metrics', {
      tokens_out: this.#pieces,
      tokens_per_second: Math.round((this.#pieces / seconds) * 10) / 10,
    });
  }

  succeed(result: ExecutionResult): void {
    this.#outcomeChars = JSON.stringify(result).length;
    if (this.#outcomeChars > MAX_RESULT_CHARS) {
      this.#outcomeChars = 0;
      this.fail(new OrchdError('EXECUTION_FAILED', 'the result is too large to be sent'));
      return;
    }
    const now = this.#clock.monotonic();
    const decode_time_ms = Math.round(now - (this.#firstPiece ?? now));
    this.#outcome = { ok: true, result, decode_time_ms };
    this.log.append('end', {
      tokens_out: result.usage?.completion_tokens ?? this.#pieces,
      decode_time_ms,
      ...(this.#firstPiece !== undefined && { first_token_ms: Math.round(this.#firstPiece - this.#begun) }),
      result,
    });
  }

  /** By whatever was thrown; one that was told to stop has been cancelled. */
  fail(thrown: unknown): void {
    const ours =
      thrown instanceof OrchdError ? thrown : new OrchdError('EXECUTION_FAILED', 'the engine failed');
    const error = this.signal.aborted ? new OrchdError('CANCELLED') : ours;
    const event = errorEvent(error);
    this.#outcome = this.signal.aborted ? { ok: 'cancelled' } : { ok: false, error: event };
    this.log.append('error', event);
  }
}

function errorEvent(error: OrchdError): ErrorEvent {
  const { retryAfterMs } = error.details;
  return {
    code: error.code,
    message: error.message.slice(0, 2000),
    retriable: error.retriable,
    ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
  };
}
