/** What an autoscaler reads over HTTP, with consumers that come, work and leave. */
import assert from 'node:assert/strict';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { onStores, placed, STORES } from './flow-kit.ts';

interface Asked {
  readonly status: number;
  readonly body: Record<string, unknown> & { readonly error?: { readonly code: string } };
}

async function call({ url }: HttpBrain, path: string, body?: object, method = body ? 'POST' : 'GET') {
  const headers = { 'content-type': 'application/json' };
  const init = { method, ...(body && { headers, body: JSON.stringify(body) }) };
  const answer = await fetch(url + path, init);
  return { status: answer.status, body: (await answer.json()) as Asked['body'] };
}

/** The samples of a metric in a scrape. */
const samples = (text: string, name: string): string[] =>
  text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));

onStores(
  'an autoscaler reads what a pool has to do, from its first consumer to its last',
  STORES,
  async (t, data) => {
    const brain = await httpBrain(
      placed({ data, config: 'leases: {gpus: [{index: 0, memory_mb: 100}, {index: 1, memory_mb: 100}]}' }),
    );
    t.after(() => brain.stop());
    const unknown = await call(brain, '/v2/scaling/gpu');
    assert.deepEqual([unknown.status, unknown.body.error?.code], [404, 'NOT_FOUND']);
    const { body: consumer } = await call(brain, '/v2/consumers', {
      pool: 'gpu',
      slots: 2,
      types: ['embed'],
    });
    const empty = await call(brain, '/v2/scaling/gpu');
    const none = {
      pool: 'gpu',
      waiting: 0,
      predicted_wait_ms: 0,
      running: 0,
      slots: 2,
      consumers: 1,
      wished: 0,
    };
    assert.deepEqual([empty.status, empty.body], [200, none]);
    for (let n = 0; n < 7; n++) await call(brain, '/v2/tasks', { job_id: `j${n}`, type: 'embed' });
    const busy = { ...none, waiting: 5, predicted_wait_ms: null, running: 2, wished: 4 };
    assert.deepEqual((await call(brain, '/v2/scaling/gpu')).body, busy);
    const depth = 'gpu_orchestrator_job_queue_depth';
    const metrics = async (): Promise<string> => (await fetch(`${brain.url}/metrics`)).text();
    const gpu = 'stream="stream:orchestrator:inference_jobs:gpu"';
    assert.deepEqual(samples(await metrics(), depth), [`${depth}{${gpu}} 7`]);
    const id = String(consumer['consumer_id']);
    const claimed = await call(brain, `/v2/consumers/${id}/claim`, { claim: 1, max: 2 });
    const jobs = claimed.body['jobs'] as { token: string }[];
    assert.deepEqual(samples(await metrics(), depth), [`${depth}{${gpu}} 5`]);
    const results = jobs.map(({ token }) => ({ token, ok: true, result: 1 }));
    await call(brain, `/v2/consumers/${id}/results`, { results });
    const { body: after } = await call(brain, '/v2/scaling/gpu');
    assert.deepEqual([after['waiting'], after['running'], after['wished']], [3, 2, 3]);
    assert.equal(typeof after['predicted_wait_ms'], 'number');
    const text = await metrics();
    assert.deepEqual(samples(text, 'gpu_orchestrator_job_latency_seconds_count'), [
      'gpu_orchestrator_job_latency_seconds_count{type="embed"} 2',
    ]);
    assert.deepEqual(samples(text, 'gpu_orchestrator_leases_active'), ['gpu_orchestrator_leases_active 0']);
    await call(brain, '/leases', { min_memory_mb: 60 });
    const leased = await metrics();
    assert.deepEqual(samples(leased, 'gpu_orchestrator_leases_active'), ['gpu_orchestrator_leases_active 1']);
    assert.deepEqual(samples(leased, 'gpu_orchestrator_leases_free'), ['gpu_orchestrator_leases_free 1']);
    assert.deepEqual(samples(leased, 'gpu_orchestrator_worker_pools_total'), [
      'gpu_orchestrator_worker_pools_total 0',
    ]);
    await call(brain, `/v2/consumers/${id}`, undefined, 'DELETE');
    assert.equal((await call(brain, '/v2/scaling/gpu')).status, 404);
  },
);
