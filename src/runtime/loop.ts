/**
 * The shell around the engine: events in, changes to the store, and nothing told or done before it is durable.
 *
 * L1  One turn takes what has arrived, steps through it and appends all changes as one unit.
 * L2  A reply or an effect of a step waits until everything applied up to that step is durable.
 * L3  Reports of executors and orders of people go before new submissions.
 * L4  When the store fails, or the engine throws, the loop stops for good and every waiting caller is told.
 */

import type { EngineEvent, Reply, ReplyTo } from '../core/engine/areas.ts';
import type { Engine, Steps } from '../core/engine/engine.ts';
import type { Store } from '../core/ports/store.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { crashpoint } from '../kit/crashpoint.ts';
import type { Cancel, Env } from '../kit/env/env.ts';
import { OrchdError, toOrchdError } from '../model/errors.ts';
import type { Change } from '../model/records.ts';
import type { BrainClock } from './brain-clock.ts';
import { type Waiter, Watermark } from './watermark.ts';

/** Submissions taken in one turn: a flood must not keep the loop from its other work. */
const SUBMITS_PER_TURN = 1024;
const MAX_TIMER_MS = 60_000;
/** What was due when the clock was stepped stays due: it is not asked for without a pause. */
const HELD_POLL_MS = 1000;

interface Posted {
  readonly event: EngineEvent;
  readonly resolve: ((reply: Reply) => void) | undefined;
  readonly reject: ((error: Error) => void) | undefined;
}

export interface LoopListener {
  /** A change of a job is durable now; the job itself may have gone on since. */
  settled(entry: JobEntry): void;
  changed(changes: readonly Change[], now: number): void;
  failed(error: Error): void;
}

export class Loop {
  readonly engine: Engine;
  readonly #env: Env;
  readonly #store: Store;
  readonly #clock: BrainClock;
  readonly #listener: LoopListener;
  #watermark = new Watermark(0);
  #urgent: Posted[] = [];
  #submits: Posted[] = [];
  #scheduled = false;
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

  /** Call once the store is open: what it recovered counts as durable. */
  begin(): void {
    this.#watermark = new Watermark(this.engine.state.seq);
  }

  /** Everything up to here is on stable storage. */
  get durableSeq(): number {
    return this.#watermark.durable;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Resolves when it has failed, or was stopped. */
  get failed(): Promise<Error> {
    return this.#failed.promise;
  }

  post(event: EngineEvent): void {
    this.#enqueue({ event, resolve: undefined, reject: undefined });
  }

  /** The reply to an event, once it is durable. A refusal is a reply. */
  ask<E extends EngineEvent>(event: E): Promise<ReplyTo<E['type']>> {
    if (this.#failure) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) =>
      this.#enqueue({ event, resolve: resolve as (reply: Reply) => void, reject }),
    );
  }

  /** Resolves when this sequence is durable: what a reader is told must not be taken back. */
  durable(seq: number): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (seq <= this.#watermark.durable) return Promise.resolve();
    return new Promise((done, fail) => {
      this.#watermark.after(Math.max(seq, this.engine.state.seq), { done, fail });
    });
  }

  onDurable(seq: number): void {
    if (this.#failure) return;
    crashpoint('commit:before-replies');
    this.#watermark.rise(seq);
    crashpoint('commit:after-replies');
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

  #enqueue(posted: Posted): void {
    if (this.#failure) return;
    if (posted.event.type === 'submit') this.#submits.push(posted);
    else this.#urgent.push(posted);
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
      // They are in no list any more: nobody else would tell them.
      for (const { reject } of batch) reject?.(failure);
      throw failure;
    }
    if (this.#submits.length > 0 || this.#urgent.length > 0) this.#schedule();
  }

  #run(batch: readonly Posted[]): void {
    const now = this.#clock.now();
    const steps = this.engine.steps(
      batch.map(({ event }) => event),
      now,
    );
    crashpoint('loop:after-step');
    const { seq } = this.engine.state;
    if (steps.changes.length > 0) {
      const appended = this.#store.append(steps.changes, now);
      if (appended !== seq) throw new Error(`the store counts ${appended}, the engine ${seq}`);
      crashpoint('loop:after-append');
    }
    this.#watermark.after(seq, new Committed(this.#listener, batch, steps, now));
    this.#setTimer(now);
  }

  #take(): Posted[] {
    const urgent = this.#urgent;
    this.#urgent = [];
    if (this.#submits.length <= SUBMITS_PER_TURN) {
      const batch = urgent.length === 0 ? this.#submits : urgent.concat(this.#submits);
      this.#submits = [];
      return batch;
    }
    const batch = urgent.concat(this.#submits.slice(0, SUBMITS_PER_TURN));
    this.#submits = this.#submits.slice(SUBMITS_PER_TURN);
    return batch;
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
      // While time may not end things, look again later.
      if (!this.#clock.mayExpire()) return this.#tickAfter(HELD_POLL_MS);
      this.#timer = undefined;
      this.#timerAt = Number.POSITIVE_INFINITY;
      this.post({ type: 'tick' });
    });
  }
}

/** One turn on its way to the disk: what is told and begun once all of it is durable. */
class Committed implements Waiter {
  readonly #listener: LoopListener;
  readonly #batch: readonly Posted[];
  readonly #steps: Steps;
  readonly #now: number;

  constructor(listener: LoopListener, batch: readonly Posted[], steps: Steps, now: number) {
    this.#listener = listener;
    this.#batch = batch;
    this.#steps = steps;
    this.#now = now;
  }

  done(): void {
    const { changes, touched, replies } = this.#steps;
    if (changes.length > 0) this.#listener.changed(changes, this.#now);
    for (let at = 0; at < replies.length; at++) (this.#batch[at] as Posted).resolve?.(replies[at]);
    // A job may be touched by several steps of a turn: what it has come to is seen once.
    for (const entry of touched) this.#listener.settled(entry);
  }

  fail(error: Error): void {
    for (const { reject } of this.#batch) reject?.(error);
  }
}
