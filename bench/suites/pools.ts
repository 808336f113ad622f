/**
 * Worker pools, gates and signals: full cycles with gates, a policy and limits of pools beside none; the plan over 1,000
 * worker pools; and what an autoscaler's question costs beside the cheapest request there is.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { dueWorkers } from '../../src/core/engine/due.ts';
import { PoolKit } from '../../test/fakes/pool-engine.ts';
import { startProcess } from '../kit/background-process.ts';
import { type Bench, type Options, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { now, quantile } from '../kit/numbers.ts';
import { type GetLoad, measure as get } from '../load/get.ts';
import { type BesideArgs, besidePlain } from '../systems/beside.ts';
import { start as startOrchd } from '../systems/http-orchd.ts';
import { openPooled, POOL } from '../systems/orchd-pooled.ts';

const urlOf = (path: string): string => new URL(path, import.meta.url).href;
const LOAD = { measure: get, url: urlOf('../load/get.ts') };
const ORCHD = { start: startOrchd, url: urlOf('../systems/http-orchd.ts') };

/** Nothing is ever refused or held up: only the checks are measured. */
const CONFIG = `
gates:
  queue_depth: {close_above: 1000000, open_below: 900000, on_depth: reject}
  gpu_memory: {close_above: 90, open_below: 75}
  agent_waiting: {high: 1000000, low: 900000}
pools: {min_warm_workers_per_pool: 1, max_total_workers: 1000}
limits:
  - {scope: "pool:*", running: 100000}
  - {scope: "pool:${POOL}", running: 100000}
`;

interface Args {
  readonly cycles?: BesideArgs;
  readonly plan?: Occupation;
}

/** `full`: each pool has its worker; otherwise half of them have none, and why. */
type Occupation = 'full' | 'no room' | 'at the ceiling';

export async function measure({ cycles, plan }: Args): Promise<Record<string, Values>> {
  if (cycles) return { ...(await besidePlain(cycles, CONFIG, openPooled)) };
  return { plan: measurePlan(plan ?? 'full') };
}

const POOLS = 1000;
/** Pools of managers, and devices of each: a manager reports at most 256 workers. */
const MANAGERS = 5;
const DEVICES = 50;
const PLANS = 200;
/** So that a device has room for four workers. */
const DEVICE_GB = 40;

/** A tick of an engine with 1,000 worker pools, each of which wishes one worker. */
function measurePlan(is: Occupation): Values {
  const kit = new PoolKit({
    idleUnloadMs: 1e9,
    ...(is === 'at the ceiling' && { maxTotalWorkers: POOLS / 2 }),
  });
  kit.model('m', { slots: 4 });
  const sizes = Array.from({ length: DEVICES }, () => (is === 'no room' ? DEVICE_GB / 2 : DEVICE_GB));
  const managers = Array.from({ length: MANAGERS }, (_, n) => `p${n}`);
  for (const id of managers) kit.pool(id, sizes);
  for (let n = 0; n < POOLS; n++) {
    const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
    const spec = { ...named, provisioner: 'managers', model: 'm', desired: 1, holdMs: 600_000 } as const;
    kit.step({ type: 'worker-pool', id: `w${n}`, order: { is: 'create', spec }, by: 'bench' });
  }
  for (const { kind, id, record } of dueWorkers(kit.engine.state)) kit.carryOut(kind, id, record);
  for (const id of managers) kit.report(id);
  const ms: number[] = [];
  for (let n = 0; n < 2 * PLANS; n++) {
    kit.now += 1000;
    const start = now();
    kit.engine.step({ type: 'tick' }, kit.now);
    if (n >= PLANS) ms.push(now() - start);
  }
  const workers = kit.engine.state.workers.size;
  return { p50Ms: quantile(ms, 0.5), p99Ms: quantile(ms, 0.99), workers };
}

async function askedBeside(options: Options, folder: string): Promise<Row[]> {
  await using server = await startProcess('pools', ORCHD, { folder: join(folder, 'server'), level: 'warn' });
  const { value: port, pid } = server;
  const post = async (path: string, body: unknown): Promise<void> => {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    };
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, init);
    if (!answer.ok) throw new Error(await answer.text());
    await answer.body?.cancel();
  };
  const types = Array.from({ length: 20 }, (_, n) => `t${n}`);
  await post('/v2/consumers', { pool: 'gpu', slots: 4, types, lease_ttl_ms: 600_000 });
  const jobs = types.flatMap((type) => Array.from({ length: 50 }, () => ({ type, payload: {} })));
  await post('/v2/tasks', jobs);
  const rows: Row[] = [];
  for (let turn = 0; turn < (options.quick ? 1 : 4); turn++)
    for (const path of ['/health', '/v2/scaling/gpu']) {
      const args: GetLoad = { folder, port, pid, path, connections: 8, ...windowOf(options) };
      rows.push({ case: `GET ${path}`, values: await inChild(LOAD, args) });
    }
  return rows;
}

export const bench: Bench = {
  name: 'pools',
  title:
    'cycles with gates, policy and pool limits; plans over 1,000 worker pools; the question of an autoscaler',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'pools');
    mkdirSync(folder);
    const url = import.meta.url;
    const cycles = { folder, inFlight: 64, ...windowOf(options) };
    const { plain = {}, other = {} } = await inChild({ measure, url }, { cycles });
    const rows: Row[] = [
      { case: 'cycle@64 in a pool, plain', values: plain },
      { case: 'cycle@64 in a pool, gates and limits', values: other },
    ];
    for (const plan of ['full', 'no room', 'at the ceiling'] as const) {
      const { plan: values = {} } = await inChild({ measure, url }, { plan });
      rows.push({ case: `plan, 1,000 worker pools, ${plan}`, values });
    }
    rows.push(...(await askedBeside(options, folder)));
    rmSync(folder, { recursive: true });
    return rows;
  },
};
