/** Two regions with a pool each: the near one is preferred, lost under load, and comes back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signal } from '../../src/kit/process/identity.ts';
import { eventually, MIB } from './site-client.ts';
import { endsOf, type PoolProcess, pidOf, poolProcess, QUICK, Site } from './site-kit.ts';

/** After this long without an answer a pool gets nothing more; work moves then, once a worker is ready there. */
const MAX_AGE_MS = 1000;
const REGIONS = new Map([
  ['box', 'near'],
  ['away', 'far'],
]);

async function stopAll(
  pool: PoolProcess,
  how: 'SIGSTOP' | 'SIGCONT',
  pids: readonly number[],
): Promise<void> {
  for (const pid of [pool.child.pid as number, ...pids]) signal(pid, how);
}

test('[ORCH-16.3] pools carry a region: the near one first, the far one when it is lost, and back; nothing runs twice', async (context) => {
  const t = endsOf(context);
  const config = {
    ...QUICK,
    pools: { ...QUICK.pools, region: 'near', state_max_age_ms: MAX_AGE_MS, idle_unload_sec: 3600 },
  };
  const site = await Site.start(t, { config, pool: { region: 'near' }, delayMs: 30 });
  // The far pool has more memory: only its region makes it the second choice.
  const env = { ORCHD_WORKER_LEDGER: site.ledgerFile, ORCHD_WORKER_DEMO_DELAY_MS: '30' };
  await poolProcess(t, {
    folder: site.folder,
    id: 'away',
    brain: site.brain.url,
    config: { region: 'far', cpu_memory: 4000 * MIB },
    env,
  });
  await site.heard('ok', 'away');
  const { client } = site;
  const { pools }: { pools: { pool_id: string; region: string }[] } = await client.done('GET', '/v2/pools');
  assert.deepEqual(new Map(pools.map(({ pool_id, region }) => [pool_id, region])), REGIONS);
  await client.register('m', { model_ref: 'demo:m', vram_bytes: 300 * MIB, slots: 2 });
  const jobs: string[] = [];
  const ask = async (): Promise<string> => {
    const id = await client.submit({ model: 'm', prompt: `hello ${jobs.length}`, priority: 'batch' });
    jobs.push(id);
    return id;
  };
  const regionOf = async (id: string): Promise<string> => {
    const job = await client.job(id);
    return job.attempts.at(-1)?.backend.startsWith('box/') ? 'near' : 'far';
  };
  const first = await ask();
  await eventually('it ends', async () => (await client.job(first)).state === 'succeeded');
  assert.equal(await regionOf(first), 'near');

  // Under way when the region goes: they stay there, and are not started elsewhere.
  const caught = [await ask(), await ask()];
  for (const id of caught)
    await eventually('it runs', async () => (await client.job(id)).state === 'running');
  const state = await site.pool.caller.state();
  const pids = state.workers.map(({ id }) => pidOf(state, id));
  const lostAt = performance.now();
  await stopAll(site.pool, 'SIGSTOP', pids);
  await site.heard('unreachable');
  const moved = await Promise.all(Array.from({ length: 6 }, ask));
  for (const id of moved)
    await eventually('it ends far away', async () => (await client.job(id)).state === 'succeeded');
  context.diagnostic(
    `6 jobs had ended in the other region ${Math.round(performance.now() - lostAt)} ms after the near one was lost`,
  );
  for (const id of moved) assert.equal(await regionOf(id), 'far');
  for (const id of caught) assert.notEqual((await client.job(id)).state, 'succeeded');

  await stopAll(site.pool, 'SIGCONT', pids);
  await site.heard();
  for (const id of caught)
    await eventually('it ends', async () => (await client.job(id)).state === 'succeeded');
  const last = await ask();
  await eventually('it ends', async () => (await client.job(last)).state === 'succeeded');
  assert.equal(await regionOf(last), 'near', 'work returns');
  for (const id of jobs) assert.equal(site.begun(id), 1, `${id} ran once`);
});
