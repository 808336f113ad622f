/**
 * Carries out the decisions about workers, and posts the reports of pool managers to the loop. For each worker at
 * most one order of a kind is under way; it is repeated until the report of its pool shows that it was carried out.
 */

import { dueWorker, dueWorkers, type WorkerEffect } from '../core/engine/due.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { PoolManagers, PoolReport, PoolsListener } from '../core/ports/pools.ts';
import { workerBackend } from '../core/ports/pools.ts';
import { commanderOf } from '../core/state/state.ts';
import { toOrchdError } from '../model/errors.ts';
import type { Change } from '../model/records.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { EffectRunner } from './effect-runner.ts';
import type { Loop } from './loop.ts';

/** The report of a pool shows a carried-out order within this time; until then the order is not repeated. */
const REPORT_MS = 1000;

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
  readonly runner: EffectRunner;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly backends: BackendDirectory;
  readonly managers: PoolManagers;
  /** Whether it is certain that no other brain leads. */
  readonly mayAct: () => boolean;
}

export class Provisioning implements PoolsListener {
  readonly #parts: ProvisioningParts;
  /** Those that the fleet has known: one that it does not know yet is about to come. */
  readonly #shown = new Set<string>();
  /** What each pool has said last, and whether the engine has heard it. */
  readonly #said = new Map<string, { readonly report: PoolReport; heard: boolean }>();

  constructor(parts: ProvisioningParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#parts.managers.watch(this);
  }

  reported(report: PoolReport): void {
    if (this.#parts.runner.stopped) return;
    this.#said.set(report.id, { report, heard: false });
    this.#parts.loop.post({ type: 'pool', report });
  }

  lost(pool: string): void {
    if (!this.#parts.runner.stopped) this.#parts.loop.post({ type: 'pool-lost', id: pool });
  }

  awaited(name: string, awaited: boolean): void {
    if (!this.#parts.runner.stopped) this.#parts.loop.post({ type: 'pool-awaited', name, awaited });
  }

  /** These changes are durable: what they ask for may be done. */
  changed(changes: readonly Change[]): void {
    if (changes.some(({ kind }) => kind === 'worker')) this.sweep();
  }

  sweep(): void {
    if (this.#parts.runner.stopped || !this.#parts.mayAct()) return;
    for (const effect of dueWorkers(this.#parts.engine.state)) this.#begin(effect);
    this.#forgetGone();
  }

  #begin(effect: WorkerEffect): void {
    const { kind, id } = effect;
    this.#parts.runner.run(`${kind} worker ${id}`, {
      isDue: () => this.#parts.mayAct() && dueWorker(this.#parts.engine.state, id) === kind,
      attempt: async () => {
        await this.#carryOut(effect).catch((error: unknown) => this.#refused(effect, error));
        return undefined;
      },
      answeredPauseMs: REPORT_MS,
    });
  }

  async #carryOut({ kind, id, record }: WorkerEffect): Promise<void> {
    const { managers, engine } = this.#parts;
    const who = commanderOf(engine.state);
    if (kind === 'stop') await managers.stopWorker(record.pool, id, who);
    else if (kind === 'drain') await managers.drainWorker(record.pool, id, who);
    else await managers.startWorker({ id, ...record }, who);
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
