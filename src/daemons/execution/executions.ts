/**
 * Accepts offers, runs them on the engine and cancels them by order. An offer names the registry that it expects
 * (docs/decisions/0009). The HTTP routes are in routes.ts.
 */
import { isOtherBody } from '../../core/ports/backend.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { describeThrown } from '../../kit/redact.ts';
import { OrchdError } from '../../model/errors.ts';
import type { CancelReply, Commander, ExecutionResult } from '../../model/worker-wire.ts';
import type { EngineInfo, RunContext } from './engine.ts';
import { type CallRecord, type Ending, Execution } from './execution.ts';
import type { InferenceRequest } from './inference-request.ts';
import type { Ledger } from './ledger.ts';
import type { TokenMemory } from './token-memory.ts';

/** Runs an execution; an Engine does. */
export interface Runner {
  run(request: InferenceRequest, context: RunContext, execution: Execution): Promise<ExecutionResult>;
}

/** Decides which offers begin, in place of a number of slots. */
export interface Admission {
  /** Throws WORKER_BUSY for an offer that cannot begin now. */
  admit(offer: ExecutionOffer): void;
  /** Called at once when an execution is begun. */
  began(execution: Execution): void;
  /** Called when it runs no longer; without an outcome, it was never begun. */
  ended(execution: Execution): void;
}

export interface ExecutionsOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly engine: Runner;
  readonly memory: TokenMemory;
  /** The model as `started` events name it. */
  readonly modelRef: (request: InferenceRequest) => string;
  readonly maxLogBytes: number;
  readonly ledger: Ledger;
  /** By default offers begin as long as there are free slots. */
  readonly admission?: Admission;
}

export interface ExecutionOffer {
  readonly who: Commander;
  readonly token: string;
  /** The registry of the memory that the brain expects (decision 9); undefined: any. */
  readonly registry: string | undefined;
  /** The hash of the body, see HASH_HEADER. */
  readonly hash: string | undefined;
  readonly request: InferenceRequest;
  /** Passed on to what the engine calls. Lost with this process: a call that is resumed is not made again. */
  readonly traceparent?: string | undefined;
  /** For an executor whose calls are found again after a restart. */
  readonly call?: CallRecord | undefined;
}

export interface DrainTimes {
  /** How long running executions may go on before they are cancelled. */
  readonly graceMs: number;
  /** How long to wait after that for results to be acknowledged. */
  readonly collectMs: number;
}

const LOADING_RETRY_MS = 1000;
const BUSY_RETRY_MS = 250;
/** For offers that this worker will not accept soon: it drains, or the offer expects another registry. */
const NOT_SOON_RETRY_MS = 5000;
/** How long the engine may take to stop a cancelled execution. */
const CANCEL_TIMEOUT_MS = 5000;

export class Executions {
  readonly #options: ExecutionsOptions;
  readonly #waiters = new Set<() => void>();
  /** Maximum number of executions at a time; undefined while offers are refused. */
  #slots: number | undefined;
  /** Why offers are refused. */
  #closed = 'the model is being loaded';
  #draining = false;
  /** Executions that the next process goes on with: their ends in this one are not recorded. */
  readonly #left = new WeakSet<Execution>();

  constructor(options: ExecutionsOptions) {
    this.#options = options;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Accepts offers from now on, as long as there are free slots. */
  open({ slots }: Pick<EngineInfo, 'slots'>): void {
    this.#slots = slots;
  }

  /** Refuses offers from now on; running executions go on. */
  close(why: string): void {
    this.#slots = undefined;
    this.#closed = why;
  }

  /**
   * Returns the execution of a token, which is begun now unless it was before. Synchronous, so that two offers of one
   * token cannot both begin it. With a journal the offer must not be answered before `memory.pending`.
   */
  begin(offer: ExecutionOffer): Execution {
    const { who, token, registry, hash, request, call, traceparent } = offer;
    const { memory, env, modelRef, maxLogBytes, ledger, admission } = this.#options;
    if (registry !== undefined && registry !== memory.registry) {
      throw busy('this worker has another registry than the offer names', NOT_SOON_RETRY_MS);
    }
    const known = memory.find(who.owner, token);
    if (known?.is === 'execution') {
      if (isOtherBody(known.execution.hash, hash)) throw new OrchdError('TOKEN_CONFLICT');
      return known.execution;
    }
    if (known?.is === 'tombstone') throw new OrchdError('TOMBSTONED');
    if (known) throw new OrchdError('UNKNOWN_OUTCOME', 'this token has run here; its result is gone');
    this.#refuseWhereFull(offer);
    ledger(token, request.jobId);
    const execution = new Execution({
      owner: who.owner,
      token,
      jobId: request.jobId,
      hash,
      model: modelRef(request),
      clock: env.clock,
      maxLogBytes,
      call,
    });
    memory.add(execution);
    admission?.began(execution);
    void this.#beginDurably(execution, { request, traceparent }, memory.pending(who.owner, token));
    return execution;
  }

  /** Goes on with an execution that an earlier process has begun. */
  resume(execution: Execution, run: (context: RunContext) => Promise<ExecutionResult>): void {
    void this.#run(execution, run);
  }

  /**
   * Cancels the execution of a token; with `bury` a running one is left alone (decision 12). A token that is not known
   * gets a tombstone.
   */
  cancel(
    { owner }: Commander,
    token: string,
    how: 'end' | 'bury',
  ): Omit<CancelReply, 'registry' | 'remembered_since'> {
    const { memory } = this.#options;
    const known = memory.find(owner, token);
    if (known?.is === 'forgotten') return { is: 'ended' };
    if (known?.is !== 'execution') {
      if (!known) memory.addTombstone(owner, token);
      return { is: 'tombstoned' };
    }
    if (how === 'end') known.execution.cancel();
    const { outcome } = known.execution;
    const { hash } = known.execution;
    if (outcome) return { is: 'ended', outcome, ...(hash !== undefined && { hash }) };
    return { is: how === 'end' ? 'stopping' : 'running' };
  }

  /** Cancels all executions of a job; the reply is that of one that has not ended, if there is one. */
  cancelJob(who: Commander, jobId: string, how: 'end' | 'bury'): ReturnType<Executions['cancel']> {
    const replies = this.#options.memory
      .ofJob(who.owner, jobId)
      .map(({ token }) => this.cancel(who, token, how));
    const last = replies.find(({ is }) => is !== 'ended') ?? replies.at(-1);
    if (last) return last;
    throw new OrchdError(
      'NOT_FOUND',
      'no execution of this job is known here; send its token to make sure that it never starts',
    );
  }

  acknowledge(who: Commander, token: string): void {
    this.#assertEnded(who, token);
    this.#options.memory.acknowledge(who.owner, token);
    this.#wake();
  }

  /** Acknowledges the execution of a token, and erases what it has said; settles when that is durable. */
  async erase(who: Commander, token: string): Promise<void> {
    this.#assertEnded(who, token);
    await this.#options.memory.erase(who.owner, token);
    this.#wake();
  }

  /**
   * Accepts no new offers; returns when nothing runs and all results are acknowledged, or when the times are over. With a
   * journal nothing is interrupted, and results need not be collected: the next process goes on.
   */
  async drain({ graceMs, collectMs }: DrainTimes): Promise<void> {
    const { memory } = this.#options;
    this.#draining = true;
    const isIdle = await this.#until(() => memory.running === 0, graceMs);
    if (memory.journal) {
      for (const execution of memory.allRunning()) this.#left.add(execution);
      return;
    }
    if (!isIdle) {
      for (const execution of memory.allRunning()) execution.interrupt();
      await this.#until(() => memory.running === 0, CANCEL_TIMEOUT_MS);
    }
    await this.#until(() => memory.unacknowledged === 0, collectMs);
  }

  #assertEnded({ owner }: Commander, token: string): void {
    const known = this.#options.memory.find(owner, token);
    if (known?.is === 'execution' && !known.execution.outcome)
      throw new OrchdError('ILLEGAL_STATE', 'this execution has not ended');
  }

  #refuseWhereFull(offer: ExecutionOffer): void {
    const { admission } = this.#options;
    if (this.#draining) throw busy('this worker is draining and takes no new jobs', NOT_SOON_RETRY_MS);
    if (admission) {
      admission.admit(offer);
      return;
    }
    if (this.#slots === undefined) throw busy(this.#closed, LOADING_RETRY_MS);
    if (this.#options.memory.running >= this.#slots) throw busy('all slots are in use', BUSY_RETRY_MS);
  }

  /** The engine is called only once the token is durable, where the memory has a journal. */
  async #beginDurably(
    execution: Execution,
    { request, traceparent }: Pick<ExecutionOffer, 'request' | 'traceparent'>,
    durable: Promise<void> | undefined,
  ): Promise<void> {
    const { engine, memory, admission } = this.#options;
    try {
      if (durable !== undefined) await durable;
    } catch {
      memory.leave(execution);
      admission?.ended(execution);
      this.#wake();
      return;
    }
    await this.#run(execution, async (context) => {
      // It may have been cancelled while its token was being written.
      if (context.signal.aborted) throw new OrchdError('CANCELLED');
      return engine.run(
        request,
        traceparent === undefined ? context : { ...context, traceparent },
        execution,
      );
    });
  }

  async #run(execution: Execution, run: (context: RunContext) => Promise<ExecutionResult>): Promise<void> {
    const { memory, logger, env, admission } = this.#options;
    const startedAt = env.clock.monotonic();
    const fields = { job_id: execution.jobId, token_id: execution.token };
    logger.info('an execution begins', fields);
    const ending = await this.#endingOf(execution, run);
    if (this.#left.has(execution)) return;
    if (memory.journal) await memory.journal.ended(execution, ending.outcome);
    execution.end(ending);
    memory.ended(execution);
    admission?.ended(execution);
    const { outcome } = ending;
    logger.info('an execution ended', {
      ...fields,
      execution_latency_ms: Math.round(env.clock.monotonic() - startedAt),
      ...(outcome.ok === false && { error_code: outcome.error.code }),
      ...(outcome.ok === 'cancelled' && { error_code: 'CANCELLED' }),
    });
    this.#wake();
  }

  async #endingOf(
    execution: Execution,
    run: (context: RunContext) => Promise<ExecutionResult>,
  ): Promise<Ending> {
    const { signal } = execution;
    try {
      const result = await run({
        signal,
        emit: (piece) => execution.emit(piece),
        noteUsage: (usage) => execution.noteUsage(usage),
      });
      return execution.success(result);
    } catch (error) {
      // The caller gets no details of an error that is not an OrchdError, so they are logged here.
      if (!(error instanceof OrchdError) && !signal.aborted) {
        const fields = { job_id: execution.jobId, token_id: execution.token };
        this.#options.logger.error('the engine failed', { ...fields, reason: describeThrown(error) });
      }
      return execution.failure(error);
    }
  }

  #wake(): void {
    for (const check of [...this.#waiters]) check();
  }

  /** Returns whether the condition became true within the time. */
  #until(condition: () => boolean, ms: number): Promise<boolean> {
    if (condition()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const settle = (isMet: boolean): void => {
        this.#waiters.delete(check);
        cancel();
        resolve(isMet);
      };
      const check = (): void => {
        if (condition()) settle(true);
      };
      const cancel: Cancel = this.#options.env.timers.after(ms, () => settle(false));
      this.#waiters.add(check);
    });
  }
}

const busy = (message: string, retryAfterMs: number): OrchdError =>
  new OrchdError('WORKER_BUSY', message, { retryAfterMs });
