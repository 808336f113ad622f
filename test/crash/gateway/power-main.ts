/**
 * Brain and gateway on a disk that loses power, in one process that obeys its parent: it lets the jobs of earlier
 * processes come to rest, and then submits jobs until it is killed. Arguments: the folder on the disk, and the URL of
 * the provider. With POWER_LIES=1 it submits some jobs, and from then on every sync of a file is a lie.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { driverOf } from '../../../src/daemons/gateway/drivers/registry.ts';
import { Gateway } from '../../../src/daemons/gateway/gateway.ts';
import { createOrchestrator } from '../../../src/index.ts';
import type { Disk } from '../../../src/kit/env/env.ts';
import { realEnv } from '../../../src/kit/env/real.ts';
import { createLogger } from '../../../src/kit/logger.ts';
import { seatOrder } from '../../fakes/fake-driver.ts';
import { sourceOf } from '../../flow/gateway-kit.ts';
import type { PowerNews, PowerOrder } from './power-news.ts';

const CLIENTS = 6;
const JOBS_BEFORE_LIES = 60;
const SLOTS = 2;
const MODELS = ['finds', 'blind'];
const RESERVATION_MS = 400;
const LOOK_MS = 20;
/** The brain asks about a held job again several times in these looks. */
const HELD_LOOKS = 30;
const CONFIG = {
  orchestrator: {
    recovery: { holder_lost_ms: 300, sweep_interval_ms: 100 },
    scheduler: { jit_poll_interval: RESERVATION_MS / 2000 },
  },
};

const [, , folder = '', provider = ''] = process.argv;
const say = (news: PowerNews): void => void process.send?.(news);
let isLying = false;

/** A disk whose syncs of files do nothing while the process lies. */
function lyingDisk(disk: Disk): Disk {
  return new Proxy(disk, {
    get(target, name) {
      const member = target[name as keyof Disk];
      if (name !== 'open') return typeof member === 'function' ? member.bind(target) : member;
      return async (...args: Parameters<Disk['open']>) => {
        const file = await target.open(...args);
        const datasync = file.datasync.bind(file);
        file.datasync = async () => (isLying ? undefined : datasync());
        return file;
      };
    },
  });
}

const real = realEnv();
const env = { ...real, disk: lyingDisk(real.disk) };
const logger = createLogger({ write: () => undefined, now: () => Date.now() });
const times = { polls: { baseDelayMs: 20, maxDelayMs: 100, jitter: 0 }, findMs: 500 };
const gateway = new Gateway({
  env,
  logger,
  folder: join(folder, 'gateway'),
  host: '127.0.0.1',
  port: 0,
  drivers: (order) => driverOf(order, { env, folder, times }),
});
await gateway.start();
gateway.follow({
  seats: [
    seatOrder('finds', { url: provider, slots: SLOTS, models: { finds: 'm' } }),
    // Its calls are not found again, so that jobs are held.
    seatOrder('blind', { url: provider, slots: SLOTS, models: { blind: 'm' }, keep: false }),
  ],
  reservation_ms: RESERVATION_MS,
  timeout_ms: 60_000,
});
const { source } = sourceOf(
  { after: () => undefined },
  { config: { pool: { url: gateway.url } }, folder: join(folder, 'link') },
);
const data = join(folder, 'data');
const brain = await createOrchestrator({
  data,
  backends: [],
  sources: [source],
  env,
  logger,
  config: JSON.stringify(CONFIG),
});
await source.firstReports();

const stateOf = (id: string): Promise<string> =>
  brain.get(id).then(
    ({ state }) => state,
    () => 'lost',
  );

/** Waits until each job has ended, is lost, or is held and stays so. */
async function atRest(ids: readonly string[]): Promise<Record<string, string>> {
  for (let looks = 0; ; looks++) {
    const reply = await fetch(`${gateway.url}/seats`);
    const { running } = (await reply.json()) as { running: number };
    const states: [string, string][] = [];
    for (const id of ids) states.push([id, await stateOf(id)]);
    const moves = states.some(([, state]) => ['queued', 'claimed', 'running'].includes(state));
    const isHeld = states.some(([, state]) => state === 'stale');
    if (running > 0 || moves) looks = 0;
    else if (!isHeld || looks >= HELD_LOOKS) return Object.fromEntries(states);
    await sleep(LOOK_MS);
  }
}

async function submit(id: string): Promise<void> {
  const model = MODELS[Number(id.at(-1)) % MODELS.length] as string;
  await brain.submit({ job_id: id, type: 'inference', model, payload: id, on_unknown: 'hold' });
  say({ is: 'acked', id });
}

async function submitOn(client: string): Promise<void> {
  for (let n = 1; ; n++) {
    await submit(`${client}-${n}`);
    await brain.wait(`${client}-${n}`);
  }
}

/** The jobs are durable; that they were begun is not. */
async function submitAndLie(client: string): Promise<void> {
  const ids = Array.from({ length: JOBS_BEFORE_LIES }, (_, n) => `${client}-${n}`);
  await Promise.all(ids.map(submit));
  isLying = true;
}

async function load(cycle: string): Promise<void> {
  if (process.env['POWER_LIES'] === '1') return submitAndLie(`${cycle}-0`);
  const clients = Array.from({ length: CLIENTS }, (_, n) => submitOn(`${cycle}-${n}`));
  await Promise.all(clients);
}

process.on('disconnect', () => process.exit(0));
process.on('message', async (order: PowerOrder) => {
  // It fails when the power is gone.
  if (order.is === 'load') return load(order.cycle).catch(() => undefined);
  if (order.is === 'retry') {
    // One that was found in the meantime has nothing to decide.
    for (const id of order.ids) await brain.resolve(id, { as: 'retry' }).catch(() => undefined);
  }
  say({ is: 'at-rest', states: await atRest(order.ids) });
});
say({ is: 'open' });
