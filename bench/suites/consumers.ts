/**
 * Full cycles of jobs that four consumer processes hear of over Redis, or ask for by long poll, on MariaDB, beside the same
 * with functions in the process of the brain, and beside queues with four workers; the time from a submit to the start of its
 * job, at a steady pace, and at one so slow that each job is heard of over Redis; and what a consumer costs that has nothing
 * to do.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, type Options, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { openBullMq, type Redis } from '../systems/bullmq.ts';
import { openGraphile } from '../systems/graphile.ts';
import { measure as idleConsumers } from '../systems/idle-consumers.ts';
import { startMariaDb } from '../systems/mariadbd.ts';
import { openOrchd } from '../systems/orchd.ts';
import { openOrchdConsumers } from '../systems/orchd-consumers.ts';
import { installPeers } from '../systems/peer.ts';
import { openPgBoss } from '../systems/pg-boss.ts';
import { type PostgresAddress, startPostgres } from '../systems/postgres.ts';
import { startRedis } from '../systems/redis.ts';
import { cycles, paced } from '../systems/shapes.ts';
import type { System } from '../systems/system.ts';

const IN_FLIGHT = 64;
const SHAPES = ['cycle', 'latency', 'seldom'] as const;
/** Between two jobs no consumer asks for more any longer: all of them listen. */
const SELDOM_PER_SEC = 2;
const SELDOM: readonly Target['kind'][] = ['consumers over Redis', 'graphile-worker'];

type Target =
  | {
      readonly kind: 'consumers over Redis';
      readonly url: string;
      readonly pid: number;
      readonly redis: OwnRedis;
    }
  | { readonly kind: 'consumers by long poll' | 'functions'; readonly url: string; readonly pid: number }
  | { readonly kind: 'graphile-worker' | 'pg-boss'; readonly at: PostgresAddress; readonly pid: number }
  | { readonly kind: 'BullMQ always'; readonly redis: OwnRedis };

type OwnRedis = Redis & { readonly url: string };

interface Args {
  readonly target: Target;
  readonly folder: string;
  readonly shape: (typeof SHAPES)[number];
  readonly quick: boolean;
}

export async function measure({ target, folder, shape, quick }: Args): Promise<Values> {
  const system = await openSystem(target, folder);
  const run = {
    cycle: () => cycles(system, folder, { inFlight: IN_FLIGHT, ...windowOf({ quick }) }),
    latency: () => paced(system, folder, { perSec: 100, seconds: quick ? 2 : 8 }),
    seldom: () => paced(system, folder, { perSec: SELDOM_PER_SEC, seconds: quick ? 2 : 10 }),
  };
  const values = await run[shape]();
  await system.close();
  return values;
}

function openSystem(target: Target, folder: string): Promise<System> {
  switch (target.kind) {
    case 'consumers over Redis':
    case 'consumers by long poll':
    case 'functions': {
      const config = `store: mariadb\nmariadb: { url: ${JSON.stringify(target.url)} }`;
      const servers = [target.pid];
      if (target.kind !== 'consumers over Redis') {
        const open = target.kind === 'functions' ? openOrchd : openOrchdConsumers;
        return open(folder, IN_FLIGHT, { config, servers });
      }
      const { pid, url: redisUrl } = target.redis;
      return openOrchdConsumers(folder, IN_FLIGHT, { config, servers: [...servers, pid], redisUrl });
    }
    case 'graphile-worker':
      return openGraphile(target.at, target.pid);
    case 'pg-boss':
      return openPgBoss(target.at, target.pid, IN_FLIGHT);
    case 'BullMQ always':
      return openBullMq(target.redis, IN_FLIGHT);
  }
}

export const bench: Bench = {
  name: 'consumers',
  title:
    'four consumer processes on MariaDB and Redis, and queues on PostgreSQL and Redis, all durable, in turns',
  rounds: 'every',
  async run(options) {
    const problem = installPeers('graphile-worker', 'pg-boss', 'bullmq');
    if (problem) return [{ case: 'peers', values: { note: `skipped: ${problem}` } }];
    const rows: Row[] = [];
    for (const shape of SHAPES) {
      await using servers = new AsyncDisposableStack();
      for (const target of await targetsOf(options.folder, servers))
        if (shape !== 'seldom' || SELDOM.includes(target.kind))
          rows.push(await rowOf(options, shape, target));
    }
    rows.push({ case: 'pulled idle: consumers over Redis', values: await idle(options) });
    return rows;
  },
};

async function idle({ folder, quick }: Options): Promise<Values> {
  const ours = join(folder, 'idle');
  mkdirSync(ours, { recursive: true });
  const redis = await startRedis(ours);
  try {
    const args = { folder: join(ours, 'data'), redisUrl: redis.url, quick };
    const url = new URL('../systems/idle-consumers.ts', import.meta.url).href;
    return await inChild({ measure: idleConsumers, url }, args, ['--expose-gc']);
  } finally {
    await redis.stop();
    rmSync(ours, { recursive: true, force: true });
  }
}

async function targetsOf(folder: string, servers: AsyncDisposableStack): Promise<Target[]> {
  const own = (name: string): string => {
    const path = join(folder, name);
    servers.defer(() => rmSync(path, { recursive: true, force: true }));
    return path;
  };
  const shape = crypto.randomUUID().slice(0, 8);
  const mariadb = await startMariaDb(own(`mariadb-${shape}`));
  servers.defer(() => mariadb.stop());
  const postgres = await startPostgres(own(`postgres-${shape}`));
  servers.defer(() => postgres.stop());
  const redis = await startRedis(own(`redis-${shape}`));
  servers.defer(() => redis.stop());
  return [
    {
      kind: 'consumers over Redis',
      url: await mariadb.database(),
      pid: mariadb.pid,
      redis: { socket: redis.socket, pid: redis.pid, url: redis.url },
    },
    { kind: 'consumers by long poll', url: await mariadb.database(), pid: mariadb.pid },
    { kind: 'functions', url: await mariadb.database(), pid: mariadb.pid },
    { kind: 'graphile-worker', at: await postgres.database(), pid: postgres.pid },
    { kind: 'pg-boss', at: await postgres.database(), pid: postgres.pid },
    { kind: 'BullMQ always', redis: { socket: redis.socket, pid: redis.pid, url: redis.url } },
  ];
}

async function rowOf(
  { folder, quick }: Options,
  shape: (typeof SHAPES)[number],
  target: Target,
): Promise<Row> {
  const ours = join(folder, `${shape}-${target.kind.replaceAll(' ', '-')}`);
  mkdirSync(ours, { recursive: true });
  const args: Args = { target, folder: ours, shape, quick };
  const values = await inChild({ measure, url: import.meta.url }, args);
  rmSync(ours, { recursive: true, force: true });
  return { case: `pulled ${shape}: ${target.kind}`, values };
}
