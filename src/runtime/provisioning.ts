/**
 * Carries out what was decided about workers, and hands on what pool managers say. For each worker there is at most
 * one order under way; one that gets no answer is given again for as long as it is due.
 */
import { dueWorkers, type WorkerEffect } from '../core/due.ts';
import type { Engine } from '../core/engine.ts';
import { type Backend, commanderOf, type PoolManagers, type PoolsListener } from '../core/ports.ts';
import { backendOf, type PoolReport } from '../core/state/pools.ts';
import type { Env } from '../kit/env/env.ts';
import { toOrchdError } from '../model/errors.ts';
import type { Change } from '../model/records.ts';
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
  /** Shared with those who offer and follow. */
  readonly backends: Map<string, Backend>;
  readonly managers: PoolManagers;
  readonly guard: (backend: Backend) => Backend;
  /** Whether it is certain that no other brain leads. */
  readonly mayAct: () => boolean;
}

export class Provisioning implements PoolsListener {
  readonly #parts: ProvisioningParts;
  readonly #acting = new Set<string>();
  /** The way to a worker, before it was guarded: another one takes its place. */
  readonly #ways = new Map<string, Backend>();
  /** Those that the fleet has known: one that it does not know yet is about to come. */
  readonly #shown = new Set<string>();
  /** What each pool has said last, and whether the engine has heard it. */
  readonly #said = new Map<string, { readonly report: PoolReport; heard: boolean }>();
  #stopped = false;

  constructor(parts: ProvisioningParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#parts.managers.start(this);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#parts.managers.stop();
  }

  reported(report: PoolReport, workers: readonly Backend[]): void {
    if (this.#stopped) return;
    for (const worker of workers) {
      const { name } = worker.info;
      if (this.#ways.get(name) === worker) continue;
      this.#ways.set(name, worker);
      this.#parts.backends.set(name, this.#parts.guard(worker));
    }
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
    const { fleet } = this.#parts.engine.state;
    this.#noteHeard();
    for (const [name, way] of this.#ways) {
      if (fleet.backends.has(name)) this.#shown.add(name);
      else if (this.#shown.delete(name) || this.#isPassed(way)) this.#forget(name);
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
  #isPassed({ info }: Backend): boolean {
    const pool = info.home?.pool;
    if (pool === undefined) return false;
    const said = this.#said.get(pool);
    if (!said) return true;
    return said.heard && !said.report.workers.some(({ id }) => backendOf(pool, id) === info.name);
  }

  #forget(name: string): void {
    this.#ways.delete(name);
    this.#parts.backends.delete(name);
    this.#parts.managers.forget(name);
  }
}
