/**
 * orchd on MariaDB compared with queues on PostgreSQL and Redis, all of them durable before they answer: the same
 * shapes, in turns, in the same run.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, type Options, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { openBullMq, type Redis } from '../systems/bullmq.ts';
import { openGraphile } from '../systems/graphile.ts';
import { startMariaDb } from '../systems/mariadbd.ts';
import { openOrchd } from '../systems/orchd.ts';
import { installPeers } from '../systems/peer.ts';
import { openPgBoss } from '../systems/pg-boss.ts';
import { type PostgresAddress, startPostgres } from '../systems/postgres.ts';
import { startRedis } from '../systems/redis.ts';
import { bulk, cycles, submits } from '../systems/shapes.ts';
import type { System } from '../systems/system.ts';

const IN_FLIGHT = 64;
const PER_CALL = 1000;
const SHAPES = { submit: 'submit@64', cycle: 'cycle@64', bulk: 'submit 1,000 a call' } as const;

type Target =
  | { readonly kind: 'orchd on MariaDB'; readonly url: string; readonly pid: number }
  | { readonly kind: 'graphile-worker'; readonly at: PostgresAddress; readonly pid: number }
  | { readonly kind: 'pg-boss'; readonly at: PostgresAddress; readonly pid: number }
  | { readonly kind: 'BullMQ always'; readonly redis: Redis };

interface Args {
  readonly target: Target;
  readonly folder: string;
  readonly shape: keyof typeof SHAPES;
  readonly quick: boolean;
}

export async function measure({ target, folder, shape, quick }: Args): Promise<Values> {
  const system = await openSystem(target, folder);
  const load = { inFlight: IN_FLIGHT, ...windowOf({ quick }) };
  const run = {
    submit: () => submits(system, folder, load),
    cycle: () => cycles(system, folder, load),
    bulk: () => bulk(system, folder, { jobs: quick ? 10_000 : 40_000, perCall: PER_CALL }),
  };
  const values = await run[shape]();
  await system.close();
  return values;
}

function openSystem(target: Target, folder: string): Promise<System> {
  switch (target.kind) {
    case 'orchd on MariaDB': {
      const config = `store: mariadb\nmariadb: { url: ${JSON.stringify(target.url)} }`;
      return openOrchd(folder, IN_FLIGHT, { config, servers: [target.pid] });
    }
    case 'graphile-worker':
      return openGraphile(target.at, target.pid);
    case 'pg-boss':
      return openPgBoss(target.at, target.pid, IN_FLIGHT);
    case 'BullMQ always':
      return openBullMq(target.redis, IN_FLIGHT);
  }
}

/** Makes a target without jobs of an earlier shape. */
type TargetFactory = () => Promise<Target>;

export const bench: Bench = {
  name: 'mariadb',
  title: 'ours on MariaDB, and the queues on PostgreSQL and Redis, all durable; 64 in flight, in turns',
  rounds: 'every',
  async run(options) {
    const problem = installPeers('graphile-worker', 'pg-boss', 'bullmq');
    if (problem) return [{ case: 'peers', values: { note: `skipped: ${problem}` } }];
    await using servers = new AsyncDisposableStack();
    return await inTurns(options, await startServers(options.folder, servers));
  },
};

async function startServers(folder: string, servers: AsyncDisposableStack): Promise<TargetFactory[]> {
  const own = (name: string): string => {
    const path = join(folder, name);
    servers.defer(() => rmSync(path, { recursive: true, force: true }));
    return path;
  };
  const mariadb = await startMariaDb(own('mariadb'));
  servers.defer(() => mariadb.stop());
  const postgres = await startPostgres(own('postgres'));
  servers.defer(() => postgres.stop());
  const redis = await startRedis(own('redis'));
  servers.defer(() => redis.stop());
  const { pid } = postgres;
  return [
    async () => ({ kind: 'orchd on MariaDB', url: await mariadb.database(), pid: mariadb.pid }),
    async () => ({ kind: 'graphile-worker', at: await postgres.database(), pid }),
    async () => ({ kind: 'pg-boss', at: await postgres.database(), pid }),
    async () => ({ kind: 'BullMQ always', redis: { socket: redis.socket, pid: redis.pid } }),
  ];
}

async function inTurns({ folder, quick }: Options, factories: readonly TargetFactory[]): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [shape, name] of Object.entries(SHAPES) as [keyof typeof SHAPES, string][]) {
    for (const makeTarget of factories) {
      const target = await makeTarget();
      const args: Args = { target, folder, shape, quick };
      const values = await inChild({ measure, url: import.meta.url }, args);
      rows.push({ case: `${name}: ${target.kind}`, values });
    }
  }
  return rows;
}
