/** Log and metrics of a real server with a real worker. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import { OrchdClient } from '../../src/client/index.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { jsonLines, type Running, start, until } from './cli-process.ts';

const PROMPT = 'CANARY that nobody may read';

interface Served extends Running {
  readonly url: string;
  readonly client: OrchdClient;
}

async function serveModel(t: TestContext, env: Record<string, string> = {}): Promise<Served> {
  const data = mkdtempSync(join(tmpdir(), 'orchd-telemetry-'));
  const server = start(['up', '--port', '0', '--data', data, '--model', 'demo:parrot'], { env });
  t.after(async () => {
    server.child.kill('SIGTERM');
    await server.ended;
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });
  const banner = await server.saw('err', /press Ctrl-C to stop/);
  const url = /listens on (\S+)/.exec(banner)![1]!;
  return { ...server, url, client: new OrchdClient({ url }) };
}

async function runJobs(client: OrchdClient, ids: readonly string[]): Promise<void> {
  const job = (id: string) => ({ job_id: id, model: 'parrot', prompt: PROMPT, session_id: `session-${id}` });
  for (const { http_status } of await client.submitMany(ids.map(job))) assert.equal(http_status, 202);
  for (const id of ids) for await (const _ of client.events(id));
}

const EVERYWHERE = ['job_id', 'session_id', 'model_ref', 'correlation_id'];
const PLACED = [...EVERYWHERE, 'worker_id', 'pool_id', 'gpu_id'];

/** The fields that each line of a job's story must have. */
const STORY: Record<string, readonly string[]> = {
  queued: [...EVERYWHERE, 'queue_position'],
  claimed: [...PLACED, 'scheduling_latency_ms'],
  running: PLACED,
  succeeded: [...PLACED, 'execution_latency_ms'],
};

test('[ORCH-1090] the log is JSON, and every line of a job has the fields that apply to it', async (t) => {
  const { client, child, ended } = await serveModel(t);
  await runJobs(client, ['one', 'two', 'three']);
  child.kill('SIGTERM');
  const { out } = await ended;
  assert.ok(!out.includes('CANARY'));
  const lines = jsonLines(out) as (Record<string, unknown> & { event?: { to: string } })[];
  const seen = new Set<string>();
  for (const id of ['one', 'two', 'three']) {
    const story = lines.filter((line) => line['job_id'] === id);
    assert.deepEqual(
      story.map(({ event }) => event?.to),
      Object.keys(STORY),
    );
    for (const line of story) {
      const fields = STORY[line.event!.to]!;
      for (const name of fields) assert.ok(name in line, `${line.event!.to}: ${name}`);
      for (const name of fields) seen.add(name);
      assert.equal(line['session_id'], `session-${id}`);
      assert.equal(line['model_ref'], 'demo:parrot', 'what the name of the model stands for');
    }
  }
  const asked =
    'job_id session_id model_ref queue_position worker_id gpu_id scheduling_latency_ms execution_latency_ms';
  for (const name of asked.split(' ')) assert.ok(seen.has(name), name);
  const positions = lines.filter(({ event }) => event?.to === 'queued').map((line) => line['queue_position']);
  assert.deepEqual(positions, [0, 1, 2], 'they waited for one worker to start');
  const worker = lines.find((line) => line['message'] === 'The worker is ready and takes jobs.');
  const claimed = lines.find((line) => line.event?.to === 'claimed');
  for (const name of ['worker_id', 'pool_id', 'gpu_id']) assert.equal(worker?.[name], claimed?.[name]);
  assert.equal(claimed?.['backend'], `${claimed?.['pool_id']}/${claimed?.['worker_id']}`);
  assert.equal(typeof claimed?.['gpu_id'], 'number');
  assert.ok((claimed?.['scheduling_latency_ms'] as number) >= (worker?.['duration_ms'] as number));
});

test('[ORCH-1091] the metrics have the names and labels that were agreed on, and count what was done', async (t) => {
  const began = performance.now();
  const { client, url } = await serveModel(t, { ORCHD_ORCHESTRATOR_PLACEMENT_ALGORITHM: 'round-robin' });
  await runJobs(client, ['one', 'two']);
  const { state, attempts } = await client.get('one');
  assert.equal(state, 'succeeded');
  const worker = attempts[0]!.backend.split('/')[1]!;
  const response = await fetch(`${url}/metrics`);
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  const lines = (await response.text()).split('\n');
  assert.ok(!lines.some((line) => line.includes('CANARY')));
  for (const line of [
    'orchd_queue_depth{priority="interactive"} 0',
    'orchd_queue_depth{priority="batch"} 0',
    'orchd_tasks_enqueued_total{outcome="accepted"} 2',
    'orchd_tasks_enqueued_total{outcome="rejected"} 0',
    `orchd_tasks_dispatched_total{worker_id="${worker}",outcome="succeeded"} 2`,
    `orchd_tasks_dispatched_total{worker_id="${worker}",outcome="failed"} 0`,
    'orchd_scheduling_latency_ms_bucket{le="+Inf",algorithm="round-robin"} 2',
    'orchd_scheduling_latency_ms_count{algorithm="round-robin"} 2',
    `orchd_worker_connections_active{worker_id="${worker}"} 0`,
    'orchd_workers{pool_id="local",model_ref="demo:parrot",status="running"} 1',
    'orchd_cold_start_ms_count{model_ref="demo:parrot"} 1',
  ])
    assert.ok(lines.includes(line), `${line}\nis not in\n${lines.join('\n')}`);
  const sum = (name: string): number =>
    Number(
      lines
        .find((line) => line.startsWith(`${name}_sum{`))
        ?.split(' ')
        .at(-1),
    );
  const [waited, coldStart] = [sum('orchd_scheduling_latency_ms'), sum('orchd_cold_start_ms')];
  assert.ok(waited >= coldStart && coldStart > 0, `both jobs waited for the worker: ${waited} ms`);
  assert.ok(waited <= 2 * (performance.now() - began), `and not longer than the test took: ${waited} ms`);
});

test('[ORCH-1091] the metrics follow what waits, what runs, what was refused and how it ended', async (t) => {
  const types = {
    hold: (_: unknown, { signal }: FunctionContext) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', reject)),
    fail: () => {
      throw Object.assign(new Error('no'), { retriable: false });
    },
  };
  const config = 'orchestrator: {placement_algorithm: round-robin}';
  const { orchestrator, url, stop } = await httpBrain({
    config,
    backends: [{ name: 'here', slots: 1, types }],
  });
  t.after(stop);
  const has = async (...series: string[]): Promise<void> => {
    const lines = (await (await fetch(`${url}/metrics`)).text()).split('\n');
    for (const each of series) assert.ok(lines.includes(each), `${each}\nis not in\n${lines.join('\n')}`);
  };
  await orchestrator.submit({ job_id: 'bad', type: 'fail' });
  await orchestrator.wait('bad');
  await orchestrator.submit({ job_id: 'held', type: 'hold' });
  await until(async () => (await orchestrator.get('held')).state === 'running');
  const waiting = { interactive: 1, batch: 2 } as const;
  for (const priority of ['interactive', 'batch'] as const)
    for (let at = 0; at < waiting[priority]; at++)
      await orchestrator.submit({ job_id: `${priority}-${at}`, type: 'hold', priority });
  await orchestrator.submit({ job_id: 'held', type: 'hold' });
  await assert.rejects(orchestrator.submit({ job_id: 'held', type: 'fail' }));
  await has(
    'orchd_queue_depth{priority="interactive"} 1',
    'orchd_queue_depth{priority="batch"} 2',
    'orchd_tasks_enqueued_total{outcome="accepted"} 5',
    'orchd_tasks_enqueued_total{outcome="duplicate"} 1',
    'orchd_tasks_enqueued_total{outcome="rejected"} 1',
    'orchd_tasks_dispatched_total{worker_id="here",outcome="succeeded"} 0',
    'orchd_tasks_dispatched_total{worker_id="here",outcome="failed"} 1',
    'orchd_scheduling_latency_ms_count{algorithm="round-robin"} 2',
    'orchd_worker_connections_active{worker_id="here"} 1',
  );
  for (const id of ['batch-0', 'batch-1', 'interactive-0', 'held']) await orchestrator.cancel(id);
  await orchestrator.wait('held');
  await has('orchd_queue_depth{priority="batch"} 0', 'orchd_worker_connections_active{worker_id="here"} 0');
  await has('orchd_tasks_dispatched_total{worker_id="here",outcome="cancelled"} 1');
});
