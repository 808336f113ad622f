/** What was asked and what it cost, as a job shows it: its payload and its tokens. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ExecutorBackend } from '../../src/backends/executor/executor-backend.ts';
import { WORKER_PROTOCOL } from '../../src/backends/pool/worker-protocol.ts';
import { DemoEngine } from '../../src/daemons/worker/demo-engine.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { JobView } from '../../src/model/http/jobs.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { tempFolder } from './flow-kit.ts';

const LARGE = 'x'.repeat(100_000);

async function brainIn(t: TestContext, options: HttpBrainOptions): Promise<HttpBrain> {
  const brain = await httpBrain(options);
  t.after(() => brain.stop());
  return brain;
}

const echo = { name: 'local', types: { echo: (payload: unknown) => payload } };

async function show({ url }: HttpBrain, path: string): Promise<JobView> {
  return (await fetch(`${url}/v2/tasks/${path}`)).json() as Promise<JobView>;
}

test('a job shows what was asked: a small payload always, a large one where it is asked for', async (t) => {
  const brain = await brainIn(t, { data: tempFolder(t), backends: [echo] });
  const { orchestrator } = brain;
  const payloads = { small: { text: 'hé' }, null: null, large: { text: LARGE } };
  for (const [id, payload] of Object.entries(payloads)) {
    await orchestrator.submit({ job_id: id, type: 'echo', payload });
    await orchestrator.wait(id);
    const whole = await show(brain, `${id}?include=payload`);
    assert.deepEqual(whole.payload, payload);
    assert.deepEqual(whole.result, payload);
    assert.equal(whole.payload_bytes, Buffer.byteLength(JSON.stringify(payload)));
  }
  assert.deepEqual((await show(brain, 'small')).payload, payloads.small);
  assert.deepEqual((await orchestrator.get('small')).payload, payloads.small);
  const large = await show(brain, 'large');
  assert.equal('payload' in large, false);
  assert.deepEqual(large.result, payloads.large);
  assert.equal(large.payload_bytes, LARGE.length + 11);
  const { jobs } = await orchestrator.list();
  assert.deepEqual(
    jobs.map((job) => 'payload' in job),
    [false, false, false],
  );
});

test('the payload of an inference has the fields that its backend receives', async (t) => {
  const brain = await brainIn(t, {});
  await brain.orchestrator.submit({ job_id: 'j', prompt: 'hi', temperature: 0, wait_for_backend: true });
  assert.deepEqual((await show(brain, 'j')).payload, { prompt: 'hi', temperature: 0 });
});

test('a wrong `include` is refused', async (t) => {
  const brain = await brainIn(t, {});
  await brain.orchestrator.submit({ job_id: 'j', prompt: 'hi', wait_for_backend: true });
  const { status } = await fetch(`${brain.url}/v2/tasks/j?include=result`);
  assert.equal(status, 400);
});

test('a job shows the tokens that its backend counted, also after a restart', async (t) => {
  const env = realEnv();
  const engine = new DemoEngine({ env, model: 'demo', slots: 1, contextLength: 500, delayMs: 0 });
  const logger = createLogger({ write: () => undefined, now: () => 0 });
  const worker = new Worker({ env, engine, logger, id: 'w', modelRef: 'demo', host: '127.0.0.1', port: 0 });
  t.after(() => worker.stop());
  await worker.start();
  await worker.loaded;
  const info = {
    name: 'box/w',
    kind: 'worker',
    slots: 1,
    types: ['inference'],
    models: ['demo'],
    labels: {},
    paid: false,
    keepsResults: true,
    registry: worker.registry,
  };
  const target = new Outbound({ timers: env.timers }).to(worker.url);
  const backend = new ExecutorBackend({
    info,
    protocol: WORKER_PROTOCOL,
    target,
    secret: undefined,
    timers: env.timers,
  });
  const data = tempFolder(t);
  const first = await httpBrain({ data, backends: [backend] });
  await first.orchestrator.submit({ job_id: 'j', model: 'demo', prompt: 'one two three' });
  const { usage, result } = await first.orchestrator.wait('j');
  assert.deepEqual(usage, (result as { usage: unknown }).usage);
  assert.ok(usage && usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  await first.stop();
  const second = await brainIn(t, { data });
  const shown = await show(second, 'j');
  assert.deepEqual(shown.usage, usage);
  assert.deepEqual(shown.attempts.at(-1)?.usage, usage);
});
