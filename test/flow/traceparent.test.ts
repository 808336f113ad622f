/** The trace of a caller, from the request to the servers that answer it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { ExecutorBackend } from '../../src/backends/executor/executor-backend.ts';
import { seatProtocol } from '../../src/backends/gateway/seat-protocol.ts';
import { WORKER_PROTOCOL } from '../../src/backends/pool/worker-protocol.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { traceIn, traceparentOf } from '../../src/model/trace.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { offerOf } from '../fakes/command-kit.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';
import { modelServer, serveUpstreams } from './upstream-kit.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`;
const AGENTS = 'agents: [{name: clerk, model: scripted}]\n';
const HELLO = [{ role: 'user', content: 'hello' }];

const post = (url: string, body: object, traceparent?: string): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(traceparent !== undefined && { traceparent }) },
    body: JSON.stringify(body),
  });

onStores(
  'every door takes the trace, which jobs keep over a restart and pass on',
  LASTING,
  async (t, data) => {
    const traces = new Map<string, string>();
    const open = () => {
      const model = new ScriptedModel((_turn, _heard, { jobId, traceId }) => {
        traces.set(jobId, traceId);
        return { text: 'hello' };
      });
      return httpBrain({ ...placed({ data, config: AGENTS }), backends: [model.backend()] });
    };
    let brain = await open();
    const task = (job_id: string) => ({ job_id, model: 'scripted', messages: HELLO });
    const { url, orchestrator } = brain;
    await post(`${url}/v2/tasks`, task('one'), TRACEPARENT);
    await post(`${url}/v2/tasks`, [task('two')], TRACEPARENT);
    await post(`${url}/v2/tasks`, task('malformed'), `${TRACEPARENT}x`);
    await post(`${url}/v2/tasks`, task('plain'));
    const later = { ...task('later'), not_before: Date.now() + 5000 };
    await post(`${url}/v2/tasks`, later, TRACEPARENT);
    await post(`${url}/v2/agents/clerk/runs`, { run_id: 'r', input: 'hello' }, TRACEPARENT);
    const chat = await post(
      `${url}/v1/chat/completions`,
      { model: 'scripted', messages: HELLO },
      TRACEPARENT,
    );
    const chatted = chat.headers.get('x-orchd-job-id') ?? '';
    const agent = await post(
      `${url}/v1/chat/completions`,
      { model: 'agent:clerk', messages: HELLO },
      TRACEPARENT,
    );
    const asked = `${agent.headers.get('x-orchd-job-id')}.1`;
    for (const id of ['one', 'two', 'malformed', 'plain', 'r']) await within(orchestrator.wait(id));
    await brain.stop();
    brain = await open();
    t.after(() => brain.stop());
    await within(brain.orchestrator.wait('later'));
    for (const id of ['one', 'two', 'later', 'r.1', chatted, asked]) assert.equal(traces.get(id), TRACE, id);
    for (const id of ['malformed', 'plain']) {
      assert.match(traces.get(id) ?? '', /^[0-9a-f]{32}$/);
      assert.notEqual(traces.get(id), TRACE);
    }
  },
);

test('workers and gateways get the trace with the span of the attempt, and nothing without a trace', async (t) => {
  const heard: unknown[] = [];
  const server = createServer((request, response) => {
    heard.push(request.headers['traceparent']);
    response
      .writeHead(503)
      .end(JSON.stringify({ error: { code: 'WORKER_BUSY', message: 'busy', retriable: true } }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { timers } = realEnv();
  const outbound = new Outbound({ timers });
  t.after(() => outbound.close());
  const target = outbound.to(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const info = { name: 'w', kind: 'worker', slots: 1, types: ['inference'], models: [], labels: {} };
  const traced = offerOf('job:3', { trace: traceIn(TRACEPARENT) });
  for (const protocol of [WORKER_PROTOCOL, seatProtocol({ seat: 's', timeoutMs: 1000 })]) {
    const backend = new ExecutorBackend({
      info: { ...info, paid: false, keepsResults: true, registry: 'r' },
      protocol,
      target,
      secret: undefined,
      timers,
    });
    await backend.offer({ ...traced, attempt: 3 });
    await backend.offer(offerOf('plain:1'));
  }
  const expected = traceparentOf('job', traced.ask, 3);
  assert.match(expected ?? '', new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  assert.deepEqual(heard, [expected, undefined, expected, undefined]);
});

test('a server behind an upstream is in the trace of a run, with a span of each call', async (t) => {
  const model = await modelServer(t, ['m']);
  const heard: string[] = [];
  model.heardHeaders = ({ traceparent }) => void heard.push(String(traceparent));
  const settings = { agents: [{ name: 'clerk', model: 'm', plan: 'always' }] };
  const { url } = await serveUpstreams(t, [{ url: model.url }], { settings });
  while (!(await (await fetch(`${url}/v1/models`)).text()).includes('"m"'));
  const started = await post(`${url}/v2/agents/clerk/runs`, { run_id: 'r', input: 'hello' }, TRACEPARENT);
  assert.equal(started.status, 202);
  const stream = await (await fetch(`${url}/v2/runs/r/events`)).text();
  assert.match(stream, new RegExp(`"trace_id":"${TRACE}"`));
  assert.equal(heard.length, 2);
  for (const each of heard) assert.match(each, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  assert.notEqual(heard[0], heard[1]);
});
