/**
 * A backend that runs jobs as functions in this process. It declares `keepsResults: false`: a call dies with the process
 * and its result is not kept, so after a restart the outcome of an open attempt is unknown.
 */

import {
  type Backend,
  type BackendInfo,
  type ExecutionEnd,
  type ExecutionEvent,
  type ExecutionOutcome,
  type FollowEnd,
  type Inspection,
  isMeantFor,
  isOtherBody,
  type KillHow,
  type KillReply,
  MAX_LABEL_CHARS,
  type Offer,
  type OfferReply,
  type SessionList,
} from '../../core/ports/backend.ts';
import type { Env } from '../../kit/env/env.ts';
import { type ErrorCode, type ErrorInfo, errorInfo, OrchdError } from '../../model/errors.ts';
import { type Labels, uidOf } from '../../model/records.ts';
import { type Trace, traceBelow, traceIdOf } from '../../model/trace.ts';
import type { Commander, TokenEvent } from '../../model/worker-wire.ts';
import { judgeOpening, type KnownOpenings } from '../../wire/epochs.ts';
import { SaidResult } from './function-end.ts';
import { FunctionExecution } from './function-execution.ts';
import { stateAfter, Wait, type WaitedState, type WaitRequest } from './function-wait.ts';
import { RecentTokens } from './recent-tokens.ts';

export interface FunctionContext {
  readonly jobId: string;
  readonly tenant: string;
  readonly token: string;
  readonly attempt: number;
  readonly model: string | undefined;
  readonly priority: 'interactive' | 'batch';
  readonly sessionId: string | undefined;
  /** The ids of the jobs above the job, from the topmost down to its parent. */
  readonly ancestors: readonly string[];
  readonly submittedBy: string;
  /** The trace of jobs that this one asks for. */
  readonly traceBelow: Trace;
  /** Aborted when the job is cancelled or runs into its timeout. */
  readonly signal: AbortSignal;
  /** Sends a piece of the answer to the job's readers. `delta` is for pieces that are not text, in OpenAI's form. */
  emit(text: string, delta?: TokenEvent['delta']): void;
  /** The trace of the job, 32 hexadecimal digits: that of its caller, or one of its own. */
  readonly traceId: string;
  /** Says what this call has done, for telemetry: kept with the record of the attempt if it succeeds or waits. */
  label(text: string): void;
  /** Set in a call that goes on after a wait. */
  readonly waited: WaitedState | undefined;
  /** Ends this call without a result, if the function returns it: the job waits, and another call goes on. */
  wait(request: WaitRequest): Wait;
  /** Ends this call with a result, if the function returns it, and stores the messages of the session with it. */
  end(result: unknown, said: SessionList): SaidResult;
}

export type JobFunction = (payload: never, context: FunctionContext) => unknown;

export interface FunctionBackendOptions {
  readonly name: string;
  /** Maximum number of concurrent calls; 1 by default. */
  readonly slots?: number;
  readonly types: Readonly<Record<string, JobFunction>>;
  readonly models?: readonly string[];
  readonly labels?: Labels;
  /** Its functions only decide, and do nothing outside: a call that is lost is made again, and uses up no try. */
  readonly repeatable?: boolean;
  /** The kind that jobs name it by, where it is a part of another backend; `function` by default. */
  readonly kind?: string;
  /** Nothing that its calls began goes on after this process has ended. */
  readonly endsWithProcess?: boolean;
}

/** Thrown by a function whose work may or may not have been done: `on_unknown` of the job decides. */
export class UnknownOutcome extends Error {}

/** At least this many refused tokens are remembered; an offer for an older one can no longer arrive within one process. */
const MIN_REFUSED = 10_000;

export class FunctionBackend implements Backend {
  readonly info: BackendInfo;
  readonly #env: Env;
  readonly #types: Readonly<Record<string, JobFunction>>;
  readonly #executions = new Map<string, FunctionExecution>();
  /** Tokens that were killed before their offer arrived, or that have run and were acknowledged. */
  readonly #refused = new RecentTokens(MIN_REFUSED);
  readonly #openings = new Map<string, KnownOpenings>();
  /** Every token offered after this time is known: the start of this process. */
  readonly #rememberedSince: number;
  readonly #registry: string;
  #running = 0;

  constructor(env: Env, options: FunctionBackendOptions) {
    this.#env = env;
    this.#types = options.types;
    this.#rememberedSince = env.clock.now();
    this.#registry = env.random.hex(8);
    this.info = {
      name: options.name,
      kind: options.kind ?? 'function',
      slots: options.slots ?? 1,
      types: Object.keys(options.types),
      models: options.models,
      labels: options.labels ?? {},
      paid: false,
      keepsResults: false,
      ...(options.repeatable && { isRepeatable: true }),
      ...(options.endsWithProcess && { endsWithProcess: true }),
      registry: this.#registry,
    };
  }

  async offer(offer: Offer): Promise<OfferReply> {
    const { token, ask } = offer;
    if (this.#isFenced(offer)) return { is: 'fenced' };
    if (!isMeantFor(this.#registry, offer)) return { is: 'busy' };
    const known = this.#executions.get(token);
    if (known) return isOtherBody(known.hash, ask.hash) ? { is: 'conflict' } : { is: 'accepted' };
    if (this.#refused.has(token)) return refused('TOMBSTONED', 'the token was withdrawn, or has ended');
    const run = Object.hasOwn(this.#types, ask.spec.type) ? this.#types[ask.spec.type] : undefined;
    if (!run) return refused('WORKER_NOT_FOUND', `this backend runs no jobs of type "${ask.spec.type}"`);
    if (this.#running >= this.info.slots) return { is: 'busy' };
    const execution = new FunctionExecution(ask.hash);
    this.#executions.set(token, execution);
    void this.#run(run, offer, execution);
    return { is: 'accepted' };
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    if (this.#isFenced(who)) throw new OrchdError('FENCED');
    const known = new Map();
    for (const token of tokens) {
      const execution = this.#executions.get(token);
      if (execution) known.set(token, execution.knownStatus());
    }
    return { registry: this.#registry, rememberedSince: this.#rememberedSince, known };
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    _who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    const execution = this.#executions.get(token);
    return (await execution?.follow(from, on, signal)) ?? { is: 'lost' };
  }

  async kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    if (this.#isFenced(who)) return { is: 'fenced' };
    const execution = this.#executions.get(token);
    if (!execution) {
      this.#refused.add(token);
      return { is: 'tombstoned', registry: this.#registry, rememberedSince: this.#rememberedSince };
    }
    if (how === 'end') execution.abort();
    const status = execution.knownStatus();
    if (status.is !== 'running') return status;
    return { is: how === 'end' ? 'stopping' : 'running' };
  }

  async ack(token: string, who: Commander): Promise<void> {
    const execution = this.#executions.get(token);
    if (this.#isFenced(who) || !execution || execution.status().is === 'running') return;
    this.#executions.delete(token);
    this.#refused.add(token);
  }

  /** Whether the token runs here, or has ended and was not acknowledged. */
  knows(token: string): boolean {
    return this.#executions.has(token);
  }

  /** Goes on with an execution of an earlier process whose work has outlived it: from now on its token is known here. */
  resume(token: string, work: (signal: AbortSignal) => Promise<unknown>): void {
    if (this.#executions.has(token) || this.#refused.has(token)) return;
    const execution = new FunctionExecution(undefined);
    this.#executions.set(token, execution);
    this.#running++;
    void this.#ended(execution, async () => resultOf(await work(execution.signal)));
  }

  async #run(run: JobFunction, offer: Offer, execution: FunctionExecution): Promise<void> {
    const { token, ask } = offer;
    this.#running++;
    execution.emit('started', { job_id: ask.id, model: ask.spec.model, started_at: this.#env.clock.now() });
    let label: string | undefined;
    await this.#ended(execution, async () => {
      const context: FunctionContext = {
        jobId: ask.id,
        tenant: ask.tenant,
        token,
        attempt: offer.attempt,
        model: ask.spec.model,
        priority: ask.spec.priority,
        sessionId: ask.spec.session_id,
        ancestors: ask.ancestors ?? [],
        submittedBy: ask.submittedBy,
        get traceBelow() {
          return traceBelow(uidOf(ask.tenant, ask.id), ask);
        },
        // Made on first use: most functions never read the signal, and making one costs more than the rest of a call.
        get signal() {
          return execution.signal;
        },
        emit: (text, delta) => execution.token(String(text), delta),
        // Computed on use: few functions read it.
        get traceId() {
          return traceIdOf(uidOf(ask.tenant, ask.id), ask);
        },
        label: (text) => {
          label = text.slice(0, MAX_LABEL_CHARS);
        },
        waited: offer.waited && stateAfter(offer.waited),
        wait: (request) => new Wait(request),
        end: (result, said) => new SaidResult(result, said),
      };
      const outcome = resultOf(await run(JSON.parse(offer.payloadText) as never, context));
      return label === undefined ? outcome : { ...outcome, label };
    });
  }

  async #ended(execution: FunctionExecution, outcomeOf: () => Promise<ExecutionOutcome>): Promise<void> {
    let end: ExecutionEnd;
    try {
      end = { is: 'ended', outcome: await outcomeOf() };
    } catch (error) {
      end = endOf(error, execution.signal.aborted);
    }
    this.#running--;
    execution.end(end);
  }

  /** Whether the brain was replaced, or is on a copy of the store. Records a newer opening. */
  #isFenced(who: Commander): boolean {
    const verdict = judgeOpening(this.#openings.get(who.owner), who);
    if (verdict.is === 'newer') this.#openings.set(who.owner, verdict.openings);
    return verdict.is === 'fenced';
  }
}

const refused = (code: ErrorCode, message: string): OfferReply => ({
  is: 'refused',
  error: errorInfo(code, message),
});

type FunctionOutcome = Exclude<ExecutionOutcome, { ok: false | 'cancelled' | 'turned_away' }>;

const resultOf = (result: unknown): FunctionOutcome =>
  result instanceof Wait || result instanceof SaidResult
    ? result.outcome()
    : { ok: true, resultText: JSON.stringify(result) ?? 'null' };

function endOf(thrown: unknown, isAborted: boolean): ExecutionEnd {
  if (thrown instanceof UnknownOutcome) return { is: 'forgotten', why: thrown.message };
  return { is: 'ended', outcome: isAborted ? { ok: 'cancelled' } : failure(thrown) };
}

/** A thrown error is retriable unless it has `retriable: false`. */
function failure(thrown: unknown): ExecutionOutcome {
  if (thrown instanceof OrchdError) return withRetryAfter(thrown.info(), thrown.details.retryAfterMs);
  const { message, retriable, retryAfterMs } = (thrown ?? {}) as {
    message?: unknown;
    retriable?: unknown;
    retryAfterMs?: unknown;
  };
  const text = typeof message === 'string' ? message.slice(0, 2000) : 'the function threw';
  const error: ErrorInfo = { ...errorInfo('EXECUTION_FAILED', text), retriable: retriable !== false };
  return withRetryAfter(error, typeof retryAfterMs === 'number' ? retryAfterMs : undefined);
}

function withRetryAfter(error: ErrorInfo, retryAfterMs: number | undefined): ExecutionOutcome {
  return retryAfterMs === undefined ? { ok: false, error } : { ok: false, error, retryAfterMs };
}
