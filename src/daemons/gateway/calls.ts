/** Makes the calls to the providers: with the driver of the seat, within a time, and each at most once. */
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { answerOf, heard } from '../../model/heard.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { RunContext } from '../execution/engine.ts';
import type { CallRecord, Execution } from '../execution/execution.ts';
import type { Runner } from '../execution/executions.ts';
import type { InferenceRequest } from '../execution/inference-request.ts';
import type { KeptMemory } from '../execution/kept-memory.ts';
import type { Driver, DriverCall } from './driver.ts';
import type { Seats } from './seats.ts';

export interface SeatCallsOptions {
  readonly env: Pick<Env, 'clock' | 'timers'>;
  readonly seats: Seats;
  readonly kept: Pick<KeptMemory, 'keepId'>;
}

type Call = Omit<DriverCall, 'request'>;

const unknown = (message: string): OrchdError => new OrchdError('UNKNOWN_OUTCOME', message);

export class SeatCalls implements Runner {
  readonly #options: SeatCallsOptions;

  constructor(options: SeatCallsOptions) {
    this.#options = options;
  }

  run(request: InferenceRequest, context: RunContext, execution: Execution): Promise<ExecutionResult> {
    return this.#call(execution, context, (driver, call) => driver.run({ ...call, request }));
  }

  /** Waits for a call of an earlier process; makes no new one. Its time begins anew: the gateway may have been away. */
  resume(execution: Execution, context: RunContext): Promise<ExecutionResult> {
    const { upstreamId: id, begunAt } = execution;
    return this.#call(execution, context, (driver, call) => driver.resume({ ...call, id, begunAt }));
  }

  async #call(
    execution: Execution,
    context: RunContext,
    make: (driver: Driver, call: Call) => Promise<ExecutionResult>,
  ): Promise<ExecutionResult> {
    const { env, seats, kept } = this.#options;
    const { call: record } = execution;
    if (!record) throw unknown('it is not recorded how the provider was called');
    const borrowed = seats.borrow(record.seat);
    if (!borrowed) throw unknown('the seat that made this call is not configured any more');
    const cancel = env.timers.after(record.timeoutMs, () => execution.expire());
    try {
      const result = await make(borrowed.driver, {
        ...watched(context),
        ...callOf(record),
        keepId: (id) => kept.keepId(execution, id),
      });
      seats.find(record.seat)?.taken();
      return withHeard(record, result);
    } catch (error) {
      throw this.#noted(error, record.seat);
    } finally {
      cancel();
      borrowed.release();
    }
  }

  /** A seat whose provider has turned a request away rests, and the error says for how long. */
  #noted(error: unknown, name: string): unknown {
    const { seats, env } = this.#options;
    const seat = seats.find(name);
    if (!(error instanceof OrchdError) || !seat) return error;
    const { turnedAway, retryAfterMs } = error.details;
    if (turnedAway === undefined) {
      seat.taken();
      return error;
    }
    const restMs = seat.turnedAway(turnedAway, retryAfterMs, env.clock.monotonic());
    return new OrchdError(error.code, error.message, { ...error.details, retryAfterMs: restMs });
  }
}

/** Adds what the thread of the answer has heard by now, so that the next request need not repeat it. */
function withHeard({ heard: asked }: CallRecord, result: ExecutionResult): ExecutionResult {
  const { thread_id: thread, text } = result;
  if (!asked || thread === undefined || text === undefined) return result;
  return { ...result, heard: heard(asked, [answerOf(text)]) };
}

const callOf = ({ model, tag, timeoutMs }: CallRecord): Pick<Call, 'model' | 'tag' | 'timeoutMs'> => ({
  model,
  tag,
  timeoutMs,
});

function watched({ signal, traceparent, emit, noteUsage }: RunContext): RunContext {
  let isFirst = true;
  return {
    signal,
    traceparent,
    noteUsage,
    emit(piece) {
      emit(piece);
      if (isFirst) crashpoint('gateway:first-event');
      isFirst = false;
    },
  };
}
