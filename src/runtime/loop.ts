/**
 * The loop around the engine: takes events, appends the engine's changes to the store, and sends no reply and starts
 * no effect before they are durable.
 *
 * L1  One turn takes waiting events, in the order in which they came and up to a limit of work, steps through them and
 *     appends all changes as one unit. Claims that have waited for what these events record are part of it, too.
 * L2  A reply or an effect of a step waits until everything applied up to that step is durable.
 * L3  Executor reports and operator commands are handled before new submits. Both have a limit of their own in each
 *     turn: neither of them starves the other.
 * L4  A flush of the store may cover the changes of many turns: they are reported in portions, each in a turn of its own
 *     and in order. What has not been reported yet counts as not durable.
 * L5  When the store fails or the engine throws, the loop stops for good and all waiting callers get the error.
 */

import type { EngineEvent, Reply, ReplyTo } from '../core/engine/areas.ts';
import type { Engine, Steps } from '../core/engine/engine.ts';
import { workOf } from '../core/engine/work.ts';
import type { Store } from '../core/ports/store.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { crashpoint } from '../kit/crashpoint.ts';
import type { Cancel, Clock, Env } from '../kit/env/env.ts';
import { OrchdError, toOrchdError } from '../model/errors.ts';
import type { Change } from '../model/records.ts';
import { type BrainClock, PURGE_REST_MS } from './brain-clock.ts';
import { waitCrashpoint } from './wait-crashpoints.ts';
import { type Waiter, Watermark } from './watermark.ts';

/**
 * Jobs that the submits of one turn may change, and as many those of all other events; or one event if that changes more.
 * A crowd of events is spread over turns, and whatever else the thread has to do comes in between.
 */
const JOBS_PER_TURN = 1024;
/** Changes that are reported as durable in one turn; or those of one turn if it made more. */
const CHANGES_PER_RISE = 2048;
const MAX_TIMER_MS = 60_000;
/** After a clock step, due timers may not fire yet (BrainClock.mayExpire). This is how often the loop checks again. */
const EXPIRY_POLL_MS = 1000;

/** An event, and who waits for the reply to it. */
export interface QueuedEvent {
  readonly event: EngineEvent;
  readonly resolve: ((reply: Reply) => void) | undefined;
  readonly reject: ((error: Error) => void) | undefined;
}

export interface LoopListener {
  /** Events that have waited for what a turn has just decided. They are part of that turn, and of its commit. */
  awaited(changes: readonly Change[]): readonly QueuedEvent[];
  /** A change of this job is durable; the job may have changed again since. */
  settled(entry: JobEntry): void;
  /** `tookMs`: from the append of the changes until they are reported as durable. */
  changed(changes: readonly Change[], now: number, tookMs: number): void;
  /** All changes up to this one are durable, and `changed` and `settled` were called for them. */
  reported(seq: number): void;
  failed(error: Error): void;
}

export class Loop {
  readonly engine: Engine;
  readonly #env: Env;
  readonly #store: Store;
  readonly #clock: BrainClock;
  readonly #listener: LoopListener;
  #watermark = new Watermark(0);
  #urgent: QueuedEvent[] = [];
  #submits: QueuedEvent[] = [];
  #scheduled = false;
  /** The last change that the store has reported as durable. */
  #storedSeq = 0;
  /** The watermark has not reached #storedSeq yet. */
  #isRising = false;
  #timer: Cancel | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #failure: Error | undefined;
  readonly #failed = Promise.withResolvers<Error>();

  constructor(env: Env, engine: Engine, store: Store, clock: BrainClock, listener: LoopListener) {
    this.#env = env;
    this.engine = engine;
    this.#store = store;
    this.#clock = clock;
    this.#listener = listener;
  }

  /** Call once the store is open: everything it recovered counts as durable. */
  begin(): void {
    this.#watermark = new Watermark(this.engine.state.seq);
  }

  /** All changes up to this one are on stable storage. */
  get durableSeq(): number {
    return this.#watermark.durable;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Resolves when the loop has failed or was stopped. */
  get failed(): Promise<Error> {
    return this.#failed.promise;
  }

  post(event: EngineEvent): void {
    this.#enqueue({ event, resolve: undefined, reject: undefined });
  }

  /** Resolves to the engine's reply once that is durable. A refusal is a reply too, not a rejection. */
  ask<E extends EngineEvent>(event: E): Promise<ReplyTo<E['type']>> {
    if (this.#failure) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) =>
      this.#enqueue({ event, resolve: resolve as (reply: Reply) => void, reject }),
    );
  }

  /**
   * Repeats a command that cancels many jobs until none is left: the engine cancels a bounded number of them in one
   * step. Resolves to the last reply. A crash in between leaves some of the jobs, and the caller without an answer: it
   * repeats its request.
   */
  async askUntilDone<E extends EngineEvent>(event: E): Promise<ReplyTo<E['type']>> {
    for (;;) {
      const reply = await this.ask(event);
      const { isPartial } = (reply ?? {}) as { isPartial?: boolean };
      if (!isPartial) return reply;
    }
  }

  /** Resolves when this sequence is durable, so that a reader never sees something that is lost in a crash. */
  durable(seq: number): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (seq <= this.#watermark.durable) return Promise.resolve();
    return new Promise((done, fail) => {
      this.#watermark.after(Math.max(seq, this.engine.state.seq), { done, fail });
    });
  }

  /** The store calls this when everything up to `seq` is on stable storage. */
  onDurable(seq: number): void {
    if (this.#failure) return;
    this.#storedSeq = seq;
    if (!this.#isRising) this.#rise();
  }

  /** Reports what is durable, in portions: one flush of the store may cover many turns (L4). */
  #rise(): void {
    crashpoint('commit:before-replies');
    this.#isRising = !this.#watermark.rise(this.#storedSeq, CHANGES_PER_RISE);
    if (this.#failure) return;
    this.#listener.reported(this.#watermark.durable);
    crashpoint('commit:after-replies');
    if (!this.#isRising) return;
    this.#env.timers.soon(() => {
      if (!this.#failure) this.#guard(() => this.#rise());
    });
  }

  fail(error: Error): void {
    if (this.#failure) return;
    this.#failure = error;
    this.#failed.resolve(error);
    this.#timer?.();
    const posted = [...this.#urgent, ...this.#submits];
    this.#urgent = [];
    this.#submits = [];
    for (const { reject } of posted) reject?.(error);
    this.#watermark.failAll(error);
    this.#listener.failed(error);
  }

  stop(): void {
    this.fail(new OrchdError('SHUTTING_DOWN'));
  }

  #enqueue(queued: QueuedEvent): void {
    if (this.#failure) return;
    if (queued.event.type === 'submit') this.#submits.push(queued);
    else this.#urgent.push(queued);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#env.timers.soon(() => {
      this.#scheduled = false;
      if (!this.#failure) this.#guard(() => this.#turn());
    });
  }

  #guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.fail(toOrchdError(error));
    }
  }

  #turn(): void {
    const batch = this.#take();
    try {
      this.#run(batch);
    } catch (error) {
      const failure = toOrchdError(error);
      // These events were taken off the queues, so `fail` would not reject them.
      for (const { reject } of batch) reject?.(failure);
      throw failure;
    }
    if (this.#submits.length > 0 || this.#urgent.length > 0) this.#schedule();
  }

  /** Events that follow from those of the batch are added to it. */
  #run(batch: QueuedEvent[]): void {
    const now = this.#clock.now();
    this.engine.state.aheadMs = this.#clock.aheadMs;
    const steps = this.#withAwaited(batch, this.#steps(batch, now), now);
    crashpoint('loop:after-step');
    waitCrashpoint('yield:before-commit', steps.changes);
    waitCrashpoint('wake', steps.changes);
    const { seq } = this.engine.state;
    if (steps.changes.length > 0) {
      const appended = this.#store.append(steps.changes, now);
      if (appended !== seq) throw new Error(`the store counts ${appended}, the engine ${seq}`);
      crashpoint('loop:after-append');
    }
    const { clock } = this.#env;
    this.#watermark.after(seq, new PendingCommit(this.#listener, batch, steps, now, clock));
    this.#setTimer(now);
  }

  /** Steps through a batch, and through what the engine has to know of a clock that was stepped, in one commit. */
  #steps(batch: readonly QueuedEvent[], now: number): Steps {
    const events = batch.map(({ event }) => event);
    // The last one: a brain that has just started has to be open first.
    if (this.#clock.takeJump()) events.push({ type: 'rest-purge', restMs: PURGE_REST_MS });
    const byMs = this.#clock.takeStep();
    if (byMs === 0) return this.engine.steps(events, now);
    // The first one: what follows in this turn is in the new time already.
    const { replies, ...steps } = this.engine.steps([{ type: 'clock-step', byMs }, ...events], now);
    return { ...steps, replies: replies.slice(1) };
  }

  #withAwaited(batch: QueuedEvent[], first: Steps, now: number): Steps {
    const awaited = this.#listener.awaited(first.changes);
    if (awaited.length === 0) return first;
    const replies = first.replies.slice(0, batch.length);
    batch.push(...awaited);
    const events = awaited.map(({ event }) => event);
    const then = this.engine.steps(events, now);
    return {
      changes: [...first.changes, ...then.changes],
      touched: new Set([...first.touched, ...then.touched]),
      replies: [...replies, ...then.replies],
    };
  }

  #take(): QueuedEvent[] {
    const urgent = this.#countForTurn(this.#urgent);
    const submits = this.#countForTurn(this.#submits);
    const batch = this.#urgent.slice(0, urgent).concat(this.#submits.slice(0, submits));
    this.#urgent = this.#urgent.slice(urgent);
    this.#submits = this.#submits.slice(submits);
    return batch;
  }

  /** How many of these events are taken into one turn: at least one, if there is one. */
  #countForTurn(waiting: readonly QueuedEvent[]): number {
    let count = 0;
    for (let jobs = 0; count < waiting.length; count++) {
      jobs += workOf(this.engine.state, (waiting[count] as QueuedEvent).event);
      if (jobs > JOBS_PER_TURN && count > 0) break;
    }
    return count;
  }

  #setTimer(now: number): void {
    const at = this.engine.nextWake();
    if (at === this.#timerAt && this.#timer) return;
    this.#timer?.();
    this.#timer = undefined;
    this.#timerAt = at;
    if (at !== Number.POSITIVE_INFINITY) this.#tickAfter(Math.max(1, Math.min(at - now, MAX_TIMER_MS)));
  }

  #tickAfter(ms: number): void {
    this.#timer = this.#env.timers.after(ms, () => {
      // Nothing may expire after a clock step: check again later.
      if (!this.#clock.mayExpire()) return this.#tickAfter(EXPIRY_POLL_MS);
      this.#timer = undefined;
      this.#timerAt = Number.POSITIVE_INFINITY;
      this.post({ type: 'tick' });
    });
  }
}

/** One turn that is being committed: sends its replies and reports its jobs once all of it is durable. */
class PendingCommit implements Waiter {
  readonly #listener: LoopListener;
  readonly #batch: readonly QueuedEvent[];
  readonly #steps: Steps;
  readonly #now: number;
  readonly #clock: Clock;
  readonly #appendedAt: number;

  constructor(
    listener: LoopListener,
    batch: readonly QueuedEvent[],
    steps: Steps,
    now: number,
    clock: Clock,
  ) {
    this.#clock = clock;
    this.#appendedAt = clock.monotonic();
    this.#listener = listener;
    this.#batch = batch;
    this.#steps = steps;
    this.#now = now;
  }

  done(): void {
    const { changes, touched, replies } = this.#steps;
    const batch = this.#batch;
    const tookMs = this.#clock.monotonic() - this.#appendedAt;
    waitCrashpoint('yield:after-commit', changes);
    if (changes.length > 0) this.#listener.changed(changes, this.#now, tookMs);
    for (let at = 0; at < batch.length; at++) (batch[at] as QueuedEvent).resolve?.(replies[at]);
    // Several steps of a turn may touch the same job; it is reported once.
    for (const entry of touched) this.#listener.settled(entry);
  }

  fail(error: Error): void {
    for (const { reject } of this.#batch) reject?.(error);
  }
}
