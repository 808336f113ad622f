/** Takes offers, runs them on the engine, ends them when told to; knows nothing of HTTP. */
import type { Cancel, Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { describeThrown } from '../../kit/redact.ts';
import { OrchdError } from '../../model/errors.ts';
import type { CancelReply, Commander } from '../../model/worker-wire.ts';
import type { Ask } from './ask.ts';
import type { Engine, EngineInfo } from './engine.ts';
import { Execution } from './execution.ts';
import type { Ledger } from './ledger.ts';
import type { Memory } from './memory.ts';

export interface ExecutionsParts {
  readonly env: Env;
  readonly logger: Logger;
  readonly engine: Engine;
  readonly memory: Memory;
  /** The name under which the model is told of. */
  readonly modelRef: string;
  readonly maxLogBytes: number;
  readonly ledger: Ledger;
}

export interface OfferedWork {
  readonly who: Commander;
  readonly token: string;
  /** The memory that it counts on. */
  readonly registry: string | undefined;
  readonly ask: Ask;
}

export interface DrainTimes {
  /** How long what runs may go on; then it is cancelled. */
  readonly graceMs: number;
  /** How long results may wait to be collected after that. */
  readonly collectMs: number;
}

const LOADING_RETRY_MS = 1000;
const BUSY_RETRY_MS = 250;
/** A worker that drains, or is another one than was meant, will not take it soon. */
const ELSEWHERE_RETRY_MS = 5000;
/** For the engine to stop what was cancelled. */
const STOP_MS = 5000;

export class Executions {
  readonly #parts: ExecutionsParts;
  readonly #waiters = new Set<() => void>();
  #info: EngineInfo | undefined;
  #draining = false;

  constructor(parts: ExecutionsParts) {
    this.#parts = parts;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** The model is loaded. */
  open(info: EngineInfo): void {
    this.#info = info;
  }

  /** The execution of a token, begun now or before; everything up to the return happens in one turn. */
  begin({ who, token, registry, ask }: OfferedWork): Execution {
    const { memory, env, modelRef, maxLogBytes, ledger } = this.#parts;
    if (registry !== undefined && registry !== memory.registry) {
      throw busy('this worker has another memory than the offer counts on', ELSEWHERE_RETRY_MS);
    }
    const known = memory.find(who.owner, token);
    if (known?.is === 'execution') return known.execution;
    if (known?.is === 'tombstone') throw new OrchdError('TOMBSTONED');
    if (known) throw new OrchdError('UNKNOWN_OUTCOME', 'this token has run here; its result is gone');
    this.#refuseWhereFull();
    ledger(token, ask.jobId);
    const execution = new Execution({
      owner: who.owner,
      token,
      jobId: ask.jobId,
      model: modelRef,
      clock: env.clock,
      maxLogBytes,
    });
    memory.add(execution);
    void this.#run(execution, ask);
    return execution;
  }

  /** One token: it ends, or is left alone where it was only to be buried; what is not known is buried. */
  cancel(
    { owner }: Commander,
    token: string,
    how: 'end' | 'bury',
  ): Omit<CancelReply, 'registry' | 'remembered_since'> {
    const { memory } = this.#parts;
    const known = memory.find(owner, token);
    if (known?.is === 'forgotten') return { is: 'ended' };
    if (known?.is !== 'execution') {
      if (!known) memory.bury(owner, token);
      return { is: 'tombstoned' };
    }
    if (how === 'end') known.execution.cancel();
    const { outcome } = known.execution;
    if (outcome) return { is: 'ended', outcome };
    return { is: how === 'end' ? 'stopping' : 'running' };
  }

  /** All executions of a job. */
  cancelJob(who: Commander, jobId: string, how: 'end' | 'bury'): ReturnType<Executions['cancel']> {
    const replies = this.#parts.memory
      .ofJob(who.owner, jobId)
      .map(({ token }) => this.cancel(who, token, how));
    const last = replies.find(({ is }) => is !== 'ended') ?? replies.at(-1);
    if (last) return last;
    throw new OrchdError(
      'NOT_FOUND',
      'nothing of this job is known here; a token that is named is refused later',
    );
  }

  acknowledge({ owner }: Commander, token: string): void {
    const { memory } = this.#parts;
    const known = memory.find(owner, token);
    if (known?.is === 'execution' && !known.execution.outcome) {
      throw new OrchdError('ILLEGAL_STATE', 'this execution has not ended');
    }
    memory.acknowledge(owner, token);
    this.#wake();
  }

  /** Takes nothing new; returns when nothing runs and the results were collected, or the times are over. */
  async drain({ graceMs, collectMs }: DrainTimes): Promise<void> {
    const { memory } = this.#parts;
    this.#draining = true;
    if (!(await this.#until(() => memory.running === 0, graceMs))) {
      for (const execution of memory.allRunning()) execution.cancel();
      await this.#until(() => memory.running === 0, STOP_MS);
    }
    await this.#until(() => memory.waiting === 0, collectMs);
  }

  #refuseWhereFull(): void {
    if (this.#draining) throw busy('this worker takes nothing new', ELSEWHERE_RETRY_MS);
    if (!this.#info) throw busy('the model is being loaded', LOADING_RETRY_MS);
    if (this.#parts.memory.running >= this.#info.slots) throw busy('all slots are in use', BUSY_RETRY_MS);
  }

  async #run(execution: Execution, ask: Ask): Promise<void> {
    const { engine, memory, logger, env } = this.#parts;
    const begun = env.clock.monotonic();
    const fields = { job_id: ask.jobId, token_id: execution.token };
    logger.info('an execution begins', fields);
    try {
      const { signal } = execution;
      execution.succeed(await engine.run(ask, { signal, emit: (piece) => execution.emit(piece) }));
    } catch (error) {
      execution.fail(error);
      // What is not ours says nothing to the caller, so it must say it here.
      if (!(error instanceof OrchdError) && !execution.signal.aborted) {
        logger.error('the engine failed', { ...fields, reason: describeThrown(error) });
      }
    }
    memory.ended(execution);
    const { outcome } = execution;
    logger.info('an execution ended', {
      ...fields,
      execution_latency_ms: Math.round(env.clock.monotonic() - begun),
      ...(outcome?.ok === false && { error_code: outcome.error.code }),
      ...(outcome?.ok === 'cancelled' && { error_code: 'CANCELLED' }),
    });
    this.#wake();
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }

  /** Whether it came to hold within the time. */
  #until(holds: () => boolean, ms: number): Promise<boolean> {
    if (holds()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const settle = (held: boolean): void => {
        this.#waiters.delete(look);
        cancel();
        resolve(held);
      };
      const look = (): void => {
        if (holds()) settle(true);
      };
      const cancel: Cancel = this.#parts.env.timers.after(ms, () => settle(false));
      this.#waiters.add(look);
    });
  }
}

const busy = (message: string, retryAfterMs: number): OrchdError =>
  new OrchdError('WORKER_BUSY', message, { retryAfterMs });
