/** No answer of a worker keeps the event loop of the brain busy for more than 50 ms, however large it is. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ExecutorBackend } from '../../src/backends/executor/executor-backend.ts';
import { WORKER_PROTOCOL } from '../../src/backends/pool/worker-protocol.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { largeAnswers } from '../fakes/large-answers.ts';
import { LoopClient, type LoopRequest } from '../fakes/loop-client.ts';
import { LoopClock } from '../fakes/loop-clock.ts';
import { tempFolder } from './flow-kit.ts';

const MAX_TURN_MS = 50;
/** 20 MB of JSON, with a million numbers. */
const EMBEDDINGS = 1000;

async function brainWithWorker(t: TestContext): Promise<HttpBrain> {
  const { url, stop } = await largeAnswers();
  t.after(stop);
  const { timers } = realEnv();
  const backend = new ExecutorBackend({
    protocol: WORKER_PROTOCOL,
    info: {
      name: 'box/w1',
      kind: 'worker',
      slots: 4,
      types: ['inference'],
      models: ['large'],
      labels: {},
      paid: false,
      keepsResults: true,
      registry: 'r1',
    },
    target: new Outbound({ timers }).to(url),
    secret: undefined,
    timers,
  });
  const brain = await httpBrain({ data: tempFolder(t), backends: [backend] });
  t.after(() => brain.stop());
  return brain;
}

async function assertTurns(
  t: TestContext,
  next: () => Promise<LoopRequest>,
  answered: RegExp,
): Promise<void> {
  const client = new LoopClient();
  t.after(() => client.stop());
  const clock = new LoopClock();
  t.after(() => clock.stop());
  const { longestMs, said } = await clock.best(MAX_TURN_MS, async () => {
    const { text } = await client.send({ giveUpMs: 120_000, ...(await next()) });
    assert.match(text, answered);
  });
  clock.stop();
  t.diagnostic(said);
  assert.ok(longestMs <= MAX_TURN_MS, said);
}

test('no result of a worker keeps the loop busy for more than 50 ms', { timeout: 120_000 }, async (t) => {
  const brain = await brainWithWorker(t);
  const next = async (): Promise<LoopRequest> => {
    const payload = { embeddings: EMBEDDINGS };
    const { job_id } = await brain.orchestrator.submit({ type: 'inference', payload });
    return { port: brain.port, method: 'GET', path: `/v2/tasks/${job_id}/events` };
  };
  await assertTurns(t, next, /^event: end$/m);
});

test("nor does the answer of OpenAI's API that is made of it", { timeout: 600_000 }, async (t) => {
  const brain = await brainWithWorker(t);
  const input = Array.from({ length: EMBEDDINGS }, () => 'a');
  const chat = (content: string, stream: boolean): object => ({
    stream,
    messages: [{ role: 'user', content }],
  });
  const cases: Readonly<Record<string, readonly [path: string, body: object, answered: RegExp]>> = {
    floats: ['/v1/embeddings', { input }, /"object":"list"/],
    base64: ['/v1/embeddings', { input, encoding_format: 'base64' }, /"embedding":"/],
    'a text': ['/v1/chat/completions', chat('text', false), /"content":"/],
    'a streamed text': ['/v1/chat/completions', chat('text', true), /"content":"/],
    'tool calls': ['/v1/chat/completions', chat('calls', false), /"tool_calls":\[/],
    'streamed tool calls': ['/v1/chat/completions', chat('calls', true), /"role":"assistant"/],
  };
  for (const [name, [path, body, answered]] of Object.entries(cases)) {
    await t.test(name, async (t) => {
      const text = JSON.stringify({ model: 'large', ...body });
      await assertTurns(t, async () => ({ port: brain.port, method: 'POST', path, body: text }), answered);
    });
  }
  await t.test('several at once', async (t) => {
    const text = JSON.stringify({ model: 'large', input });
    const request = { port: brain.port, method: 'POST', path: '/v1/embeddings', body: text, copies: 4 };
    await assertTurns(t, async () => request, /"object":"list"/);
  });
});
