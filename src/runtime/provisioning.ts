/**
 * Carries out the decisions about workers, and posts the reports of pool managers to the loop. For each worker at
 * most one order of a kind is under way; it is repeated until the report of its pool shows that it was carried out.
 */

import { dueWorker, dueWorkers, type WorkerEffect } from '../core/engine/due.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { PoolManagers, PoolReport, PoolsListener, WorkerOrder } from '../core/ports/pools.ts';
import { workerBackend } from '../core/ports/pools.ts';
import { commanderOf } from '../core/state/state.ts';
import { toOrchdError } from '../model/errors.ts';
import type { Change } from '../model/records.ts';
import type { Commander } from '../model/worker-wire.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Divergence } from './divergence.ts';
import type { EffectRunner } from './effect-runner.ts';
import type { Loop } from './loop.ts';

/** The report of a pool shows a carried-out order within this time; until then the order is not repeated. */
const REPORT_MS = 1000;

/** Whether a start that was refused with this code can never succeed. */
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
  readonly runner: EffectRunner;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly backends: BackendDirectory;
  readonly managers: PoolManagers;
  readonly divergence: Divergence;
  /** Whether it is certain that no other brain leads. */
  readonly mayAct: () => boolean;
}

export class Provisioning implements PoolsListener {
  readonly #parts: ProvisioningParts;
  /** Workers that were in the fleet. One that was not may still enter it with a report that is being handled. */
  readonly #wasInFleet = new Set<string>();
  /** The last report of each pool, and whether the engine has handled it. */
  readonly #lastReports = new Map<string, { readonly report: PoolReport; handled: boolean }>();
  /** Workers that their manager has started under another name: a repeated order would start another one. */
  readonly #named = new Set<string>();

  constructor(parts: ProvisioningParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#parts.managers.watch(this);
  }

  reported(report: PoolReport): void {
    if (this.#parts.runner.stopped) return;
    this.#lastReports.set(report.id, { report, handled: false });
    this.#parts.loop.post({ type: 'pool', report });
  }

  lost(pool: string, problem?: string): void {
    if (!this.#parts.runner.stopped) this.#parts.loop.post({ type: 'pool-lost', id: pool, problem });
  }

  awaited(name: string, awaited: boolean): void {
    if (!this.#parts.runner.stopped) this.#parts.loop.post({ type: 'pool-awaited', name, awaited });
  }

  /** These changes are durable, so the orders they ask for may be given. */
  changed(changes: readonly Change[]): void {
    if (changes.some(({ kind }) => kind === 'worker')) this.sweep();
  }

  sweep(): void {
    if (this.#parts.runner.stopped || !this.#parts.mayAct()) return;
    const { state } = this.#parts.engine;
    for (const id of this.#named) if (!state.workers.get(id)) this.#named.delete(id);
    for (const effect of dueWorkers(state)) this.#begin(effect);
    this.#forgetGone();
  }

  #begin(effect: WorkerEffect): void {
    const { kind, id } = effect;
    this.#parts.runner.run(`${kind} worker ${id}`, {
      isDue: () =>
        this.#parts.mayAct() &&
        !(kind === 'start' && this.#named.has(id)) &&
        dueWorker(this.#parts.engine.state, id) === kind,
      attempt: async () => {
        await this.#carryOut(effect).catch((error: unknown) => this.#refused(effect, error));
        return undefined;
      },
      answeredPauseMs: REPORT_MS,
    });
  }

  #carryOut(effect: WorkerEffect): Promise<void> {
    return this.#parts.divergence.answerOf(effect.record.pool, this.#order(effect));
  }

  #order({ kind, id, record }: WorkerEffect): Promise<void> {
    const { managers, engine } = this.#parts;
    const who = commanderOf(engine.state);
    if (kind === 'stop') return managers.stopWorker(record.pool, id, who);
    if (kind === 'drain') return managers.drainWorker(record.pool, id, who);
    return this.#start({ id, ...record }, who);
  }

  async #start(order: WorkerOrder, who: Commander): Promise<void> {
    const id = await this.#parts.managers.startWorker(order, who);
    if (id !== order.id) this.#named.add(order.id);
  }

  /** A start that cannot succeed is reported; any other order is given again. */
  #refused({ kind, id }: WorkerEffect, thrown: unknown): void {
    const error = toOrchdError(thrown);
    if (error.code === 'FENCED') throw error;
    if (this.#parts.runner.stopped || kind !== 'start' || !isFinal(error.code)) return;
    this.#parts.loop.post({ type: 'start-failed', worker: id, error: error.info() });
  }

  #forgetGone(): void {
    const { fleet } = this.#parts.engine.queue;
    this.#noteHandled();
    for (const { info } of [...this.#parts.backends.values()]) {
      const { name, home } = info;
      if (home === undefined) continue;
      if (fleet.backends.has(name)) this.#wasInFleet.add(name);
      else if (this.#wasInFleet.delete(name) || this.#isPassed(name, home.pool)) this.#forget(name);
    }
  }

  #noteHandled(): void {
    const { pools } = this.#parts.engine.state;
    for (const [id, last] of this.#lastReports) {
      const known = pools.get(id);
      if (known?.report === last.report) last.handled = true;
      // An operator removed the pool.
      else if (!known && last.handled) this.#lastReports.delete(id);
    }
  }

  /**
   * Whether a worker that is not in the fleet will never enter it: the engine has handled the last report of its pool,
   * and the worker is not in it; or the pool is unknown.
   */
  #isPassed(name: string, pool: string): boolean {
    const last = this.#lastReports.get(pool);
    if (!last) return true;
    return last.handled && !last.report.workers.some(({ id }) => workerBackend(pool, id) === name);
  }

  #forget(name: string): void {
    this.#parts.backends.delete(name);
    this.#parts.managers.forget(name);
  }
}
