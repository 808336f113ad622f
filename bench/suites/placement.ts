/**
 * Decisions of the engine in a large fleet: 1,000 workers in 20 pools, five for each of 200 models, and 100,000 jobs
 * that wait for those models. `decide`: the outcome of a running job frees a slot and the next job is claimed, with each
 * placement algorithm. `report`: a pool reports a new version that requires no action. `plan`: a pool reports while no
 * worker serves any of the 200 models, so that all of them are examined; the memory is taken by workers of 200 other
 * models, of which the first step evicts one for each model, and later steps see these evictions under way.
 */

import type { EngineEvent } from '../../src/core/engine/areas.ts';
import { Engine, type Step } from '../../src/core/engine/engine.ts';
import type { PoolReport, ReportedWorker } from '../../src/core/ports/pools.ts';
import { type PlacementAlgorithm, POOL_DEFAULTS, type PoolSettings } from '../../src/core/settings.ts';
import { tokenOf } from '../../src/model/records.ts';
import { SETTINGS, START, submission } from '../../test/fakes/engine-kit.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { now, quantile } from '../kit/numbers.ts';

const MODELS = 200;
const WORKERS_PER_MODEL = 5;
const POOLS = 20;
const DEVICES = 10;
const SLOTS = 4;
const GB = 1_000_000_000;
const VRAM = 10 * GB;
const WORKERS_PER_POOL = (MODELS * WORKERS_PER_MODEL) / POOLS;
const DEVICE_BYTES = (WORKERS_PER_POOL / DEVICES) * VRAM;
const FILL_BATCH = 1000;
const PRINCIPALS = 4;
const STEP_MS = 5;

/** All placement algorithms. */
const ALGORITHMS: readonly PlacementAlgorithm[] = [
  'least-loaded',
  'most-vram-free',
  'round-robin',
  'multi-objective',
];

type Shape = 'decide' | 'report' | 'plan';

interface Args {
  readonly shape: Shape;
  readonly algorithm: PlacementAlgorithm;
  readonly waiting: number;
  readonly steps: number;
}

const servedModel = (model: number): string => `model-${model}`;
const otherModel = (model: number): string => `other-${model}`;
const refOf = (model: string): string => `demo:${model}`;

class BenchEngine {
  readonly #engine: Engine;
  readonly #version = new Map<number, number>();
  #now = START;
  #made = 0;

  constructor(pools: Partial<PoolSettings>) {
    const settings = {
      ...SETTINGS,
      queueCapacity: 10_000_000,
      queueBytes: 2 ** 40,
      pools: { ...POOL_DEFAULTS, prewarm: false, ...pools },
    };
    this.#engine = new Engine({ settings, random: () => 0.5 });
    this.step({ type: 'open', owner: 'bench' });
    for (let model = 0; model < MODELS; model++) {
      this.#register(servedModel(model));
      this.#register(otherModel(model));
    }
  }

  step(event: EngineEvent): Step {
    return this.#engine.step(event, this.#now);
  }

  /** Runs a step and measures its time. */
  timed(event: EngineEvent): { step: Step; us: number } {
    const begin = now();
    const step = this.step(event);
    return { step, us: (now() - begin) * 1000 };
  }

  pass(ms: number): void {
    this.#now += ms;
  }

  submit(count: number): void {
    const submissions = Array.from({ length: count }, () => {
      const n = this.#made++;
      const model = servedModel(n % MODELS);
      const principal = `someone-${Math.floor(n / MODELS) % PRINCIPALS}`;
      return submission(`j${n}`, { type: 'inference', model, agent: principal });
    });
    this.step({ type: 'submit', submissions });
  }

  fill(waiting: number): void {
    while (this.waiting < waiting) this.submit(Math.min(FILL_BATCH, waiting - this.waiting));
  }

  get waiting(): number {
    return this.#engine.state.counts.queued;
  }

  /** A report of a pool with the same content as the last one and a new version. */
  reportOf(pool: number, nameOf: (model: number) => string): PoolReport {
    const version = (this.#version.get(pool) ?? 0) + 1;
    this.#version.set(pool, version);
    const workers = Array.from({ length: WORKERS_PER_POOL }, (_, at) => {
      const n = pool * WORKERS_PER_POOL + at;
      return workerOf(`w${n}`, nameOf(n % MODELS), at % DEVICES);
    });
    const devices = Array.from({ length: DEVICES }, (_, id) => ({
      id,
      totalBytes: DEVICE_BYTES,
      allocatedBytes: 0,
      availableBytes: 0,
      ok: true,
      reason: undefined,
    }));
    return {
      id: `pool-${pool}`,
      registry: `memory of ${pool}`,
      version,
      region: undefined,
      labels: {},
      devices,
      workers,
    };
  }

  #register(id: string): void {
    const model = {
      id,
      name: id,
      ref: refOf(id),
      aliases: [],
      sizeBytes: GB,
      vramBytes: VRAM,
      vramGuessed: undefined,
      contextLength: 8192,
      slots: SLOTS,
      sha256: undefined,
      signature: undefined,
      publicKey: undefined,
    };
    this.step({ type: 'register', model });
  }
}

const workerOf = (id: string, model: string, device: number): ReportedWorker => ({
  id,
  modelRef: refOf(model),
  device,
  vramBytes: VRAM,
  status: 'ready',
  unusable: undefined,
  error: undefined,
  slots: SLOTS,
  contextLength: 8192,
  registry: `memory of ${id}`,
  paid: false,
});

/** Tokens of the jobs that a step has claimed. */
function claimed({ touched }: Step): string[] {
  const tokens: string[] = [];
  for (const { uid, job, open } of touched)
    if (job.state === 'claimed') tokens.push(tokenOf(uid, open?.n ?? 0));
  return tokens;
}

/** Ends the oldest running job, again and again; the number of waiting jobs stays the same. */
function decide(engine: BenchEngine, running: string[], steps: number): number[] {
  const times: number[] = [];
  for (let at = 0; at < 2 * steps; at++) {
    const token = running.shift();
    if (token === undefined) throw new Error('nothing runs');
    engine.step({ type: 'offered', token, answer: { is: 'accepted' } });
    engine.pass(STEP_MS);
    const outcome = { ok: true as const, result: 'null' };
    const { step, us } = engine.timed({ type: 'outcome', token, outcome });
    const next = claimed(step);
    if (next.length !== 1) throw new Error(`${next.length} jobs were claimed`);
    running.push(...next);
    forget(engine, step);
    engine.submit(1);
    // The first half warms up.
    if (at >= steps) times.push(us);
  }
  return times;
}

/** Drops ended jobs from memory, as the runtime does once the history holds them. */
function forget(engine: BenchEngine, { touched }: Step): void {
  const uids = [...touched]
    .filter(({ job }) => job.state === 'succeeded')
    .map(({ uid, seq }) => ({ uid, seq }));
  engine.step({ type: 'indexed', uids });
}

/** Sends reports of all pools in turns; `nameOf` gives the models of their workers. */
function reports(engine: BenchEngine, nameOf: (model: number) => string, steps: number): number[] {
  const times: number[] = [];
  for (let at = 0; at < steps; at++) {
    engine.pass(STEP_MS);
    const report = engine.reportOf(at % POOLS, nameOf);
    const { us } = engine.timed({ type: 'pool', report });
    if (at >= steps / 2) times.push(us);
  }
  return times;
}

export async function measure({ shape, algorithm, waiting, steps }: Args): Promise<Values> {
  const engine = new BenchEngine({ placement: algorithm });
  const nameOf = shape === 'plan' ? otherModel : servedModel;
  if (shape !== 'plan') engine.fill(waiting);
  const running: string[] = [];
  for (let pool = 0; pool < POOLS; pool++) {
    running.push(...claimed(engine.step({ type: 'pool', report: engine.reportOf(pool, nameOf) })));
  }
  engine.fill(waiting);
  const times = shape === 'decide' ? decide(engine, running, steps) : reports(engine, nameOf, steps);
  return {
    p50Us: quantile(times, 0.5),
    p99Us: quantile(times, 0.99),
    maxUs: Math.max(...times),
    waiting: engine.waiting,
  };
}

export const bench: Bench = {
  name: 'placement',
  title: 'a decision on the engine: 1,000 workers in 20 pools, 100,000 jobs of 200 models waiting',
  rounds: 'once',
  async run({ quick }) {
    const rows: Row[] = [];
    const flags = ['--max-old-space-size=4096'];
    const waiting = quick ? 10_000 : 100_000;
    const run = async (name: string, shape: Shape, algorithm: PlacementAlgorithm, steps: number) => {
      const args: Args = { shape, algorithm, waiting, steps };
      rows.push({ case: name, values: await inChild({ measure, url: import.meta.url }, args, flags) });
    };
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const algorithm of ALGORITHMS)
        await run(`decide, ${algorithm}`, 'decide', algorithm, quick ? 5000 : 20_000);
      await run('report', 'report', 'least-loaded', 400);
      await run('plan', 'plan', 'least-loaded', 20);
    }
    return rows;
  },
};
