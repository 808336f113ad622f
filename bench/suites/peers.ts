/** orchd and BullMQ on a Redis that syncs before it answers: the same shapes, in turns, in the same run. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, type Options, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { openBullMq, type Redis } from '../systems/bullmq.ts';
import { openOrchd } from '../systems/orchd.ts';
import { installPeers } from '../systems/peer.ts';
import { hasRedis, startRedis } from '../systems/redis.ts';
import { cycles, enqueueThenDrain, paced } from '../systems/shapes.ts';

const IN_FLIGHT = 64;
const SHAPES = ['cycle', 'drain', 'latency'] as const;

interface Args {
  readonly folder: string;
  /** Set for BullMQ; without it orchd is measured. */
  readonly redis: Redis | undefined;
  readonly shape: (typeof SHAPES)[number];
  readonly quick: boolean;
}

export async function measure({ folder, redis, shape, quick }: Args): Promise<Values> {
  const system = await (redis ? openBullMq(redis, IN_FLIGHT) : openOrchd(folder, IN_FLIGHT));
  const run = {
    cycle: () => cycles(system, folder, { inFlight: IN_FLIGHT, ...windowOf({ quick }) }),
    drain: () => enqueueThenDrain(system, folder, { inFlight: IN_FLIGHT, jobs: quick ? 4000 : 20_000 }),
    latency: () => paced(system, folder, { perSec: 100, seconds: quick ? 2 : 8 }),
  };
  const values = await run[shape]();
  await system.close();
  return values;
}

export const bench: Bench = {
  name: 'peers',
  title: 'ours and BullMQ (Redis appendfsync always), in turns; 64 in flight',
  rounds: 'every',
  async run(options) {
    const problem = hasRedis() ? installPeers('bullmq') : 'redis-server not found';
    if (problem) return [{ case: 'bullmq', values: { note: `peer skipped: ${problem}` } }];
    const redis = await startRedis(join(options.folder, 'redis'));
    try {
      return await inTurns(options, { socket: redis.socket, pid: redis.pid });
    } finally {
      await redis.stop();
      rmSync(join(options.folder, 'redis'), { recursive: true });
    }
  },
};

async function inTurns({ folder, quick }: Options, redis: Redis): Promise<Row[]> {
  const rows: Row[] = [];
  for (const shape of SHAPES) {
    for (const [name, server] of [
      ['orchd', undefined],
      ['bullmq', redis],
    ] as const) {
      const ours = join(folder, 'peers');
      const args: Args = { folder: server ? folder : ours, redis: server, shape, quick };
      rows.push({ case: `${shape} ${name}`, values: await inChild({ measure, url: import.meta.url }, args) });
      rmSync(ours, { recursive: true, force: true });
    }
  }
  return rows;
}
