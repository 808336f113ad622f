/** A brain on a machine without a GPU: what it knows of GPUs it knows from pool managers. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { fakeGpu, OTHERS_MIB, setOthers, TOTAL_MIB } from '../fakes/gpu.ts';
import { isDatabase, LASTING, onStores } from './flow-kit.ts';
import { serve, testFolder } from './server-process.ts';
import { Client, eventually } from './site-client.ts';
import { endsOf, poolProcess, QUICK } from './site-kit.ts';

const FREE_MIB = TOTAL_MIB - OTHERS_MIB;

/** A machine whose tools tell of a GPU that no pool manager has; each call of one is noted in a file. */
function toolsOf(folder: string): { readonly env: Readonly<Record<string, string>>; readonly noted: string } {
  const [bin, noted] = [join(folder, 'brain-bin'), join(folder, 'asked')];
  mkdirSync(bin);
  for (const name of ['nvidia-smi', 'rocm-smi', 'lspci']) {
    const path = join(bin, name);
    writeFileSync(path, `#!/bin/sh\necho "$0 $*" >> '${noted}'\necho "0, NVIDIA Local, 80000, 0, 80000"\n`);
    chmodSync(path, 0o755);
  }
  return { env: { PATH: `${bin}${delimiter}${process.env['PATH']}` }, noted };
}

onStores(
  '[ORCH-1002] a brain runs without a GPU, and has all that it knows of GPUs from pool managers, of which it stores nothing',
  LASTING,
  async (context, data) => {
    const t = endsOf(context);
    const folder = testFolder(t);
    const { env, noted } = toolsOf(folder);
    const store = isDatabase(data) ? { store: 'mariadb', mariadb: { url: data } } : {};
    const open = (port = '0') =>
      serve(t, { data: join(folder, 'brain'), config: { ...QUICK, ...store }, env, port });
    let brain = await open();
    const client = new Client(brain.url);
    const lease = async (min_memory_mb: number): Promise<unknown[]> => {
      const body = await client.done('POST', '/leases', { min_memory_mb });
      await client.done('POST', `/leases/${body.token}/release`, {});
      return [body.mode, body.pool, body.gpu_index];
    };
    const pools = async (): Promise<unknown[]> => (await client.done('GET', '/v2/pools')).pools;
    assert.deepEqual([await pools(), await lease(1)], [[], ['cpu', null, null]]);
    await client.register('m', { vram_bytes: FREE_MIB * 2 ** 20, size_bytes: 1, context_length: 4096 });
    const job = await client.submit({ model: 'm', prompt: 'x', priority: 'batch' });
    assert.equal((await client.job(job)).state, 'queued');

    const config = { cpu_memory: 0, device_poll_ms: 50 };
    const pool = await poolProcess(t, { folder, brain: brain.url, config, env: fakeGpu(folder) });
    await client.becomes(job, 'succeeded');
    const {
      workers: [worker],
    } = await pool.caller.state();
    assert.equal(worker?.gpu, 0, 'its worker was started on the GPU of the pool manager');
    await client.done('POST', `/v2/workers/${worker.id}/evict`, {});
    await eventually('the GPU is lent', async () => (await lease(FREE_MIB))[0] === 'gpu');
    assert.deepEqual(await lease(FREE_MIB), ['gpu', 'box', 0]);
    assert.deepEqual(await lease(FREE_MIB + 1), ['cpu', null, null]);

    setOthers(folder, OTHERS_MIB + 500);
    await eventually('less is lent', async () => (await lease(FREE_MIB))[0] === 'cpu');
    assert.deepEqual(await lease(FREE_MIB - 500), ['gpu', 'box', 0]);
    const metrics = await (await fetch(`${brain.url}/metrics`)).text();
    assert.match(metrics, /gpu_orchestrator_gpu_mem_used_pct\{[^}]*\} 15\n/);

    await pool.kill();
    await brain.kill();
    brain = await open(brain.port);
    const devices = (await pools()) as { gpus: unknown[] }[];
    assert.deepEqual([devices.flatMap(({ gpus }) => gpus), await lease(1)], [[], ['cpu', null, null]]);
    assert.equal(existsSync(noted) ? readFileSync(noted, 'utf8') : '', '', 'its own machine was not asked');
  },
);

test('[ORCH-1002] only the pool manager has code that asks a machine for its GPUs', () => {
  const root = join(import.meta.dirname, '..', '..', 'src');
  const found = globSync('**/*.ts', { cwd: root }).filter(
    (file) =>
      !file.endsWith('.test.ts') &&
      /nvidia-smi|nvml|rocm-smi|\/dev\/nvidia|\/proc\/driver/i.test(readFileSync(join(root, file), 'utf8')),
  );
  assert.deepEqual(
    found.filter((file) => !file.startsWith(join('daemons', 'pool-manager'))),
    [],
  );
  assert.ok(found.length > 0, 'the pool manager has');
});
