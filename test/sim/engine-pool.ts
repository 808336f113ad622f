/** The real engine with one pool on little memory, driven through days of requests as events in time. */

import type { EngineEvent } from '../../src/core/engine/areas.ts';
import type { Engine } from '../../src/core/engine/engine.ts';
import { Engine as RealEngine } from '../../src/core/engine/engine.ts';
import type { ReportedWorker } from '../../src/core/ports/pools.ts';
import { workerBackend } from '../../src/core/ports/pools.ts';
import { POOL_DEFAULTS } from '../../src/core/settings.ts';
import { causeName } from '../../src/model/causes.ts';
import type { Change, WorkerRecord } from '../../src/model/records.ts';
import { tokenOf } from '../../src/model/records.ts';
import { SETTINGS, SUCCESS, submission } from '../fakes/engine-kit.ts';
import { MONDAY, type Model, type Request } from './day-trace.ts';

export interface PoolOptions {
  readonly prewarm: boolean;
  readonly vramGb: number;
  readonly startMs: number;
  readonly idleMs: number;
  /** Events before this instant teach the forecast and are not counted. */
  readonly countFrom: number;
}

export interface PoolReport {
  requests: number;
  /** Requests that found no ready worker of their model. */
  coldMet: number;
  /** Requests that found ready workers, but no free slot. */
  queued: number;
  /** Workers that were started although nobody waited. */
  early: number;
  /** Gigabytes times seconds of workers that had nothing to do. */
  idleGbSeconds: number;
  /** Most workers of each model at once, and fewest after the learning. */
  readonly most: Map<string, number>;
  readonly fewest: Map<string, number>;
}

const GB = 1e9;
const TICK_MS = 10_000;
const STOP_MS = 1000;

interface Due {
  readonly at: number;
  readonly run: () => void;
}

export class EnginePool {
  readonly report: PoolReport = {
    ...{ requests: 0, coldMet: 0, queued: 0, early: 0, idleGbSeconds: 0 },
    most: new Map(),
    fewest: new Map(),
  };
  readonly #options: PoolOptions;
  readonly #models: readonly Model[];
  readonly #engine: Engine;
  readonly #workers = new Map<string, ReportedWorker>();
  readonly #runs = new Map<string, number>();
  readonly #due: Due[] = [];
  #now = MONDAY;
  #version = 0;

  constructor(models: readonly Model[], options: PoolOptions) {
    this.#models = models;
    this.#options = options;
    const pools = { ...POOL_DEFAULTS, prewarm: options.prewarm, idleUnloadMs: options.idleMs };
    const settings = { ...SETTINGS, queueCapacity: 100_000, pools };
    this.#engine = new RealEngine({ settings, random: () => 0.5 });
    this.#step({ type: 'open', owner: 'sim' });
    for (const model of models) this.#register(model);
    this.#tell();
  }

  run(requests: readonly Request[]): PoolReport {
    let next = 0;
    const end = (requests.at(-1)?.at ?? MONDAY) + TICK_MS;
    for (let tick = MONDAY + TICK_MS; tick < end; tick += TICK_MS) {
      for (; requests[next] && (requests[next] as Request).at < tick; next++) {
        this.#until((requests[next] as Request).at);
        this.#ask(requests[next] as Request, next);
      }
      this.#until(tick);
      this.#step({ type: 'tick' });
      this.#measure();
      this.#forget();
    }
    return this.report;
  }

  /** Runs everything that is due before an instant, in order. */
  #until(at: number): void {
    for (;;) {
      this.#due.sort((a, b) => a.at - b.at);
      const first = this.#due[0];
      if (!first || first.at > at) break;
      this.#due.shift();
      this.#now = first.at;
      first.run();
    }
    this.#now = at;
  }

  #ask({ model, runsMs }: Request, n: number): void {
    const ready = this.#running(model);
    if (this.#now >= this.#options.countFrom) {
      this.report.requests++;
      if (ready.length === 0) this.report.coldMet++;
      else if (ready.every(({ used }) => used >= model.slots)) this.report.queued++;
    }
    const uid = `r${n}`;
    this.#runs.set(uid, runsMs);
    const asked = submission(uid, { type: 'inference', model: model.name, priority: 'interactive' });
    this.#step({ type: 'submit', submissions: [asked] });
  }

  #step(event: EngineEvent): void {
    for (const change of this.#engine.step(event, this.#now).changes) this.#follow(change);
  }

  /** Reacts to a change as workers and pools would. */
  #follow({ kind, id, after, cause }: Change): void {
    if (kind === 'job' && after?.state === 'claimed') {
      const token = tokenOf(id, after.attempt);
      this.#later(0, () => this.#step({ type: 'offered', token, answer: { is: 'accepted' } }));
      this.#later(this.#runs.get(id) ?? 0, () => this.#step({ type: 'outcome', token, outcome: SUCCESS }));
    }
    if (kind !== 'worker' || !after) return;
    if (causeName(cause) === 'start') this.#start(id, after);
    else if (causeName(cause) === 'stopping') this.#later(STOP_MS, () => this.#gone(id));
  }

  #start(id: string, record: WorkerRecord): void {
    if (record.why.is === 'prewarm' && this.#now >= this.#options.countFrom) this.report.early++;
    this.#workers.set(id, {
      ...{ id, modelRef: record.modelRef, device: 0, vramBytes: record.vramBytes, status: 'starting' },
      ...{
        unusable: undefined,
        error: undefined,
        slots: record.slots ?? 1,
        contextLength: 8192,
        registry: id,
        paid: false,
      },
    });
    this.#later(0, () => this.#tell());
    this.#later(this.#options.startMs, () => {
      const worker = this.#workers.get(id);
      if (worker) this.#workers.set(id, { ...worker, status: 'ready' });
      this.#tell();
    });
  }

  #gone(id: string): void {
    this.#workers.delete(id);
    this.#tell();
  }

  #tell(): void {
    const totalBytes = this.#options.vramGb * GB;
    const used = [...this.#workers.values()].reduce((sum, { vramBytes }) => sum + vramBytes, 0);
    const memory = { totalBytes, allocatedBytes: used, availableBytes: totalBytes - used };
    const device = { id: 0, ...memory, ok: true, reason: undefined };
    const known = { id: 'sim', registry: 'sim', version: ++this.#version, region: undefined, labels: {} };
    this.#step({
      type: 'pool',
      report: { ...known, devices: [device], workers: [...this.#workers.values()] },
    });
  }

  #register({ name, vramGb, slots }: Model): void {
    const file = {
      ref: `file:/${name}.gguf`,
      sizeBytes: 1,
      vramBytes: vramGb * GB,
      vramGuessed: undefined,
      contextLength: 8192,
    };
    const proof = { sha256: undefined, signature: undefined, publicKey: undefined };
    this.#step({ type: 'register', model: { id: name, name, aliases: [], slots, ...file, ...proof } });
  }

  #running(model: Model): { used: number }[] {
    const { workers } = this.#engine.state;
    const { fleet } = this.#engine.queue;
    return workers.of(`file:/${model.name}.gguf`).flatMap(([id, { pool, state }]) => {
      const backend = fleet.backends.get(workerBackend(pool, id));
      return state === 'running' && backend ? [backend] : [];
    });
  }

  #measure(): void {
    if (this.#now < this.#options.countFrom) return;
    const { most, fewest } = this.report;
    for (const model of this.#models) {
      const running = this.#running(model);
      const idle = running.filter(({ used }) => used === 0).length;
      this.report.idleGbSeconds += (idle * model.vramGb * TICK_MS) / 1000;
      most.set(model.name, Math.max(most.get(model.name) ?? 0, running.length));
      fewest.set(model.name, Math.min(fewest.get(model.name) ?? Infinity, running.length));
    }
  }

  /** The history has what has ended. */
  #forget(): void {
    const uids = [...this.#engine.state.ended].map(({ uid, seq }) => ({ uid, seq }));
    if (uids.length > 0) this.#step({ type: 'indexed', uids });
    for (const { uid } of uids) this.#runs.delete(uid);
  }

  #later(ms: number, run: () => void): void {
    this.#due.push({ at: this.#now + ms, run });
  }
}
