/** An execution on a worker or another executor: its event log, its abort signal and its outcome. */
import type { Clock } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { HeardMessages } from '../../model/heard.ts';
import type {
  EndEvent,
  ErrorEvent,
  ExecutionResult,
  TokenEvent,
  Usage,
  WorkerOutcome,
} from '../../model/worker-wire.ts';
import type { AnswerPiece } from './engine.ts';
import { EventLog } from './event-log.ts';
import { splitPiece } from './split-piece.ts';

/** What a later process needs to find the call to a provider again. */
export interface CallRecord {
  readonly seat: string;
  /** The provider's name of the model. */
  readonly model: string;
  /** Names the attempt at the provider. */
  readonly tag: string;
  /** The longest time of the call. */
  readonly timeoutMs: number;
  /** What the thread of the call has heard with this request, without the answer, if the caller wants to know. */
  readonly heard?: HeardMessages | undefined;
}

/** What an earlier process has left of an execution. */
export interface EarlierExecution {
  /** The event numbers up to this one may have been used. */
  readonly numbered: number;
  /** The wall clock when it was begun. */
  readonly begunAt: number;
  /** The provider's id of the call, if it became known. */
  readonly upstreamId: string | undefined;
  readonly outcome: WorkerOutcome | undefined;
}

/** How an execution ends: its outcome, and its last event. */
export interface Ending {
  readonly outcome: WorkerOutcome;
  readonly type: 'end' | 'error';
  readonly data: EndEvent | ErrorEvent;
  /** The length of the result as JSON. */
  readonly resultChars: number;
}

export interface ExecutionOptions {
  readonly owner: string;
  readonly token: string;
  readonly jobId: string;
  /** The hash of the body, see HASH_HEADER. */
  readonly hash?: string | undefined;
  readonly model: string;
  readonly clock: Clock;
  readonly maxLogBytes: number;
  readonly call?: CallRecord | undefined;
  readonly earlier?: EarlierExecution | undefined;
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
  readonly call: CallRecord | undefined;
  /** The wall clock when it was begun. */
  readonly begunAt: number;
  /** The provider's id of the call, once it is known. */
  upstreamId: string | undefined;
  readonly #clock: Clock;
  readonly #abort = new AbortController();
  readonly #startedAt: number;
  #firstPieceAt: number | undefined;
  #metricsAt: number;
  #pieces = 0;
  #outcome: WorkerOutcome | undefined;
  #outcomeChars = 0;
  /** Why it is stopped without an order of the brain. */
  #stoppedBy: 'shutdown' | 'time limit' | undefined;
  #usage: Usage | undefined;

  constructor(options: ExecutionOptions) {
    this.owner = options.owner;
    this.token = options.token;
    this.jobId = options.jobId;
    this.hash = options.hash;
    this.#clock = options.clock;
    this.#startedAt = options.clock.monotonic();
    this.#metricsAt = this.#startedAt;
    const { earlier } = options;
    this.call = options.call;
    this.begunAt = earlier?.begunAt ?? options.clock.now();
    this.upstreamId = earlier?.upstreamId;
    this.log = new EventLog(options.maxLogBytes, earlier?.numbered);
    this.log.append('started', {
      job_id: options.jobId,
      model: options.model,
      started_at: this.begunAt,
    });
    if (earlier?.outcome) this.end(endingOf(earlier.outcome));
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
    this.#stop('shutdown');
  }

  /** Stops the execution because it has run for too long. */
  expire(): void {
    this.#stop('time limit');
  }

  #stop(why: 'shutdown' | 'time limit'): void {
    if (this.#outcome || this.signal.aborted) return;
    this.#stoppedBy = why;
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

  /** Keeps the tokens counted so far, for an end that is no success; undefined: they are not known. */
  noteUsage(usage: Usage | undefined): void {
    this.#usage = usage;
  }

  succeed(result: ExecutionResult): void {
    this.end(this.success(result));
  }

  /** Ends the execution with what the engine threw: as cancelled where it was cancelled before, else as failed. */
  fail(thrown: unknown): void {
    this.end(this.failure(thrown));
  }

  /** The ending with a result. The execution goes on until `end` is called with it. */
  success(result: ExecutionResult): Ending {
    const resultChars = JSON.stringify(result).length;
    if (resultChars > MAX_RESULT_CHARS) {
      return this.failure(new OrchdError('EXECUTION_FAILED', 'the result is too large to be sent'));
    }
    const now = this.#clock.monotonic();
    const decode_time_ms = Math.round(now - (this.#firstPieceAt ?? now));
    const data = {
      tokens_out: result.usage?.completion_tokens ?? this.#pieces,
      decode_time_ms,
      ...(this.#firstPieceAt !== undefined && {
        first_token_ms: Math.round(this.#firstPieceAt - this.#startedAt),
      }),
      result,
    };
    return { outcome: { ok: true, result, decode_time_ms }, type: 'end', data, resultChars };
  }

  /** The ending with what the engine threw. */
  failure(thrown: unknown): Ending {
    const error = this.#errorOf(thrown);
    const usage = this.#usage;
    const data = errorEvent(error, usage);
    const isCancelled = error.code === 'CANCELLED';
    return {
      outcome: isCancelled ? { ok: 'cancelled', ...(usage && { usage }) } : { ok: false, error: data },
      type: 'error',
      data,
      resultChars: 0,
    };
  }

  end({ outcome, type, data, resultChars }: Ending): void {
    if (this.#outcome) return;
    this.#outcome = outcome;
    this.#outcomeChars = resultChars;
    this.log.append(type, data);
  }

  #errorOf(thrown: unknown): OrchdError {
    // An engine that cannot say whether the work has ended says so also about one that was told to stop.
    if (this.signal.aborted && thrown instanceof OrchdError && thrown.code === 'UNKNOWN_OUTCOME')
      return thrown;
    if (this.#stoppedBy === 'time limit') return new OrchdError('WORKER_TIMEOUT');
    if (this.#stoppedBy === 'shutdown')
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

/** The ending of an execution of which only the outcome is known. */
function endingOf(outcome: WorkerOutcome): Ending {
  if (outcome.ok === true) {
    const { result, decode_time_ms = 0 } = outcome;
    const data = { tokens_out: result.usage?.completion_tokens ?? 0, decode_time_ms, result };
    return { outcome, type: 'end', data, resultChars: JSON.stringify(result).length };
  }
  const data = outcome.ok === false ? outcome.error : errorEvent(new OrchdError('CANCELLED'), outcome.usage);
  return { outcome, type: 'error', data, resultChars: 0 };
}

const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0 };

function errorEvent(error: OrchdError, noted: Usage | undefined): ErrorEvent {
  const { reason, retryAfterMs, turnedAway, isUncharged = false } = error.details;
  const usage = noted ?? (isUncharged && turnedAway === undefined ? NO_USAGE : undefined);
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
