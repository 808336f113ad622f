/**
 * Carries out what was decided about workers, and hands on what pool managers say. For each worker there is at most
 * one order under way; one that gets no answer is given again for as long as it is due.
 */

import { dueWorkers, type WorkerEffect } from '../core/engine/due.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { PoolManagers, PoolReport, PoolsListener } from '../core/ports/pools.ts';
import { workerBackend } from '../core/ports/pools.ts';
import { commanderOf } from '../core/state/state.ts';
import type { Env } from '../kit/env/env.ts';
import { toOrchdError } from '../model/errors.ts';
import type { Change } from '../model/records.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Loop } from './loop.ts';

/** An order that was heard shows in the next report; until then it is not repeated. */
const PAUSE_MS = 1000;

/** Refusals after which the same start cannot succeed. */
const isFinal = (code: string): boolean => code !== 'POOL_UNAVAILABLE' && !TRANSIENT.has(code);
const TRANSIENT: ReadonlySet<string> = new Set([
  'WORKER_UNAVAILABLE',
  'WORKER_TIMEOUT',
  'INTERNAL',
  'SHUTTING_DOWN',
  'STORE_FULL',
  'UNAUTHORIZED',
  'FORBIDDEN',
]);

export interface ProvisioningParts {
  readonly env: Env;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly backends: BackendDirectory;
  readonly managers: PoolManagers;
  /** Whether it is certain that no other brain leads. */
  readonly mayAct: () => boolean;
}

export class Provisioning implements PoolsListener {
  readonly #parts: ProvisioningParts;
  readonly #acting = new Set<string>();
  /** Those that the fleet has known: one that it does not know yet is about to come. */
  readonly #shown = new Set<string>();
  /** What each pool has said last, and whether the engine has heard it. */
  readonly #said = new Map<string, { readonly report: PoolReport; heard: boolean }>();
  #stopped = false;

  constructor(parts: ProvisioningParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#parts.managers.watch(this);
  }

  stop(): void {
    this.#stopped = true;
  }

  reported(report: PoolReport): void {
    if (this.#stopped) return;
    this.#said.set(report.id, { report, heard: false });
    this.#parts.loop.post({ type: 'pool', report });
  }

  lost(pool: string): void {
    if (!this.#stopped) this.#parts.loop.post({ type: 'pool-lost', id: pool });
  }

  awaited(name: string, awaited: boolean): void {
    if (!this.#stopped) this.#parts.loop.post({ type: 'pool-awaited', name, awaited });
  }

  /** These changes are durable: what they ask for may be done. */
  changed(changes: readonly Change[]): void {
    if (changes.some(({ kind }) => kind === 'worker')) this.sweep();
  }

  sweep(): void {
    if (this.#stopped || !this.#parts.mayAct()) return;
    for (const effect of dueWorkers(this.#parts.engine.state)) this.#begin(effect);
    this.#forgetGone();
  }

  #begin(effect: WorkerEffect): void {
    const name = `${effect.kind} ${effect.id}`;
    if (this.#acting.has(name)) return;
    this.#acting.add(name);
    this.#carryOut(effect)
      .catch((error: unknown) => this.#refused(effect, error))
      .finally(() => this.#parts.env.timers.after(PAUSE_MS, () => this.#acting.delete(name)));
  }

  async #carryOut({ kind, id, record }: WorkerEffect): Promise<void> {
    const { managers, engine } = this.#parts;
    const who = commanderOf(engine.state);
    if (kind === 'stop') await managers.stopWorker(record.pool, id, who);
    else if (kind === 'drain') await managers.drainWorker(record.pool, id, who);
    else await managers.startWorker({ id, ...record }, who);
  }

  #refused({ kind, id }: WorkerEffect, thrown: unknown): void {
    if (this.#stopped) return;
    const error = toOrchdError(thrown);
    if (error.code === 'FENCED') return this.#parts.loop.fail(error);
    if (kind !== 'start' || !isFinal(error.code)) return;
    this.#parts.loop.post({ type: 'start-failed', worker: id, error: error.info() });
  }

  #forgetGone(): void {
    const { fleet } = this.#parts.engine.queue;
    this.#noteHeard();
    for (const { info } of [...this.#parts.backends.values()]) {
      const { name, home } = info;
      if (home === undefined) continue;
      if (fleet.backends.has(name)) this.#shown.add(name);
      else if (this.#shown.delete(name) || this.#isPassed(name, home.pool)) this.#forget(name);
    }
  }

  #noteHeard(): void {
    const { pools } = this.#parts.engine.state;
    for (const [id, said] of this.#said) {
      const known = pools.get(id);
      if (known?.report === said.report) said.heard = true;
      // The pool itself was forgotten.
      else if (!known && said.heard) this.#said.delete(id);
    }
  }

  /** It came and went unseen, or never was its pool's to show: nothing is left to be heard that could show it. */
  #isPassed(name: string, pool: string): boolean {
    const said = this.#said.get(pool);
    if (!said) return true;
    return said.heard && !said.report.workers.some(({ id }) => workerBackend(pool, id) === name);
  }

  #forget(name: string): void {
    this.#parts.backends.delete(name);
    this.#parts.managers.forget(name);
  }
}
