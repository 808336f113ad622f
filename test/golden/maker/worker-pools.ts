/**
 * The happenings of v10: worker pools of pool managers and of programs outside, in every status, and a policy about how
 * many workers there are. Two runs of a brain, the same on every store.
 */
import type { WorkerPoolRequest } from '../../../src/model/http/worker-pools.ts';
import { GB } from './pools.ts';
import type { Stage } from './script.ts';

const HOUR_SEC = 3600;

const create = ({ brain, world }: Stage, id: string, request: WorkerPoolRequest): Promise<unknown> =>
  world.settled(brain.pools.workerPools.create(id, request, 'ann'));

const report = ({ brain, world }: Stage, id: string, spawned: number): Promise<unknown> =>
  world.settled(brain.pools.workerPools.command(id, { is: 'heartbeat', spawned }, 'outside'));

/** Carries out the next start that was ordered. */
async function showNext({ world, pools }: Stage): Promise<void> {
  await world.settled(pools.ordered(1));
  const order = pools.starts.shift();
  if (!order) throw new Error('nothing was ordered');
  pools.show(order);
  await world.settle();
}

export async function firstPools(stage: Stage): Promise<void> {
  const { brain, world, pools } = stage;
  pools.add('box', [40]);
  const named = { id: 'chat', name: 'chat', ref: 'file:/models/chat.gguf', aliases: ['assistant'] };
  const sizes = { sizeBytes: 4 * GB, vramBytes: 5 * GB, vramGuessed: undefined, contextLength: 8192, slots: 2 };
  const unsigned = { sha256: undefined, signature: undefined, publicKey: undefined };
  await world.settled(brain.catalog.register({ ...named, ...sizes, ...unsigned }));
  await create(stage, 'warm', {
    ...{ model_id: 'assistant', agent_name: 'ann', desired_workers: 1, hold_seconds: 0 },
    ...{ adapter: '/adapters/news.gguf', variant: 'fp16', metadata: { team: 'news 🦊' } },
  });
  await showNext(stage);
  await create(stage, 'outside', { desired_workers: 3, hold_seconds: HOUR_SEC });
  await report(stage, 'outside', 2);
  await create(stage, 'full', { desired_workers: 1 });
  await report(stage, 'full', 1);
  for (const id of ['evicted', 'stopped', 'draining', 'deleted']) await create(stage, id, { desired_workers: 1 });
  await world.settled(brain.checkpoint());
  await world.settled(brain.pools.workerPools.command('evicted', { is: 'evict' }, 'ann'));
  await world.settled(brain.pools.workerPools.command('stopped', { is: 'drain', graceMs: 0 }, 'ann'));
  await world.settled(brain.pools.workerPools.command('deleted', { is: 'evict' }, 'ann'));
}

export async function secondPools(stage: Stage): Promise<void> {
  const { brain, world } = stage;
  await world.pass(2000);
  await report(stage, 'draining', 1);
  await world.settled(
    brain.pools.workerPools.command('draining', { is: 'drain', graceMs: HOUR_SEC * 1000 }, 'bob'),
  );
  await world.settled(brain.pools.workerPools.delete('deleted'));
  await world.settled(brain.pools.workerPools.command('outside', { is: 'change', desired: 4 }, 'bob'));
  const sizes = { min_warm_workers_per_pool: 1, max_total_workers: 50 };
  await world.settled(brain.policy.set({ ...sizes, why: 'a quiet week' }, 'bob'));
}
