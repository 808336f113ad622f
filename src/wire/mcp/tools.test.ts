/** The table of tools against the routes that they use, and against what clients of the protocol expect. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Compile } from 'typebox/schema';
import { httpBrain } from '../../../test/fakes/http-brain.ts';
import { OrchdClient } from '../../client/client.ts';
import { realEnv } from '../../kit/env/real.ts';
import { readMessage } from './message.ts';
import { answerRequest, type McpExchange, TOOLS } from './server.ts';

test('each tool performs an operation of the HTTP API, takes nothing but its arguments, and changes something only where that does', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const operations = new Map(brain.routes.map((route) => [route.operationId, route]));
  for (const { name, title, description, input, operation, hints } of TOOLS) {
    assert.match(name, /^[a-z_]{1,40}$/);
    assert.ok(title !== '' && description.length > 40, name);
    const route = operations.get(operation);
    assert.ok(route, `${name} performs "${operation}", which is no operation`);
    assert.equal(hints.readOnlyHint, route.method === 'GET', name);
    assert.equal(input.type, 'object');
    assert.equal((input as { additionalProperties?: unknown }).additionalProperties, false, name);
  }
  assert.equal(new Set(TOOLS.map(({ name }) => name)).size, TOOLS.length);
});

test('the schema that a client is shown refuses what the server refuses', () => {
  const examples: Record<string, { good: object; bad: object[] }> = {
    submit_job: {
      good: { prompt: 'x', job_id: 'a' },
      bad: [{ prompt: 5 }, { job_id: '..' }, { modle: 'm' }],
    },
    wait_for_job: { good: { job_id: 'a', wait_ms: 1 }, bad: [{}, { job_id: 'a', wait_ms: 50_001 }] },
    list_jobs: { good: { limit: 100 }, bad: [{ limit: 101 }, { limit: '5' }] },
    start_run: { good: { agent: 'a', input: 'x' }, bad: [{ input: 'x' }, { agent: 'a', run_id: 'r.1' }] },
    answer_approval: {
      good: { run_id: 'r', call_id: 'c', approve: true, hash: 'h' },
      bad: [
        { run_id: 'r', call_id: 'c', approve: true },
        { run_id: 'r', call_id: 'c', approve: 1, hash: 'h' },
      ],
    },
  };
  for (const [name, { good, bad }] of Object.entries(examples)) {
    const listed = JSON.parse(JSON.stringify(TOOLS.find((tool) => tool.name === name)?.input));
    const check = Compile(listed);
    assert.ok(check.Check(good), name);
    for (const each of bad) assert.ok(!check.Check(each), `${name} ${JSON.stringify(each)}`);
  }
});

test('wrong arguments are an error of the call that names the field, and nothing is submitted', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const env = realEnv();
  const exchange: McpExchange = {
    version: '1',
    brain: new OrchdClient({ url: brain.url }),
    clock: env.clock,
    timers: env.timers,
    newId: () => 'made',
    signal: new AbortController().signal,
    mayUse: () => true,
    notify: () => undefined,
  };
  const call = async (name: unknown, args: unknown): Promise<Record<string, never>> => {
    const message = readMessage({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: args },
    });
    assert.ok(message.is === 'request');
    return (await answerRequest(message, exchange)) as never;
  };
  const { result } = (await call('submit_job', { promt: 'x' })) as unknown as {
    result: {
      isError: boolean;
      structuredContent: { error: { code: string; field: string; message: string } };
    };
  };
  assert.equal(result.isError, true);
  const { code, field, message } = result.structuredContent.error;
  assert.deepEqual([code, field], ['INVALID_PARAMS', 'promt']);
  assert.match(message, /did you mean "prompt"/);
  for (const [name, args] of [
    ['submit_jobs', {}],
    ['__proto__', {}],
    [5, {}],
    [undefined, {}],
    ['submit_job', []],
    ['submit_job', 'x'],
  ]) {
    const { error } = (await call(name, args)) as unknown as { error: { code: number } };
    assert.equal(error.code, -32602, JSON.stringify([name, args]));
  }
  assert.equal((await brain.orchestrator.list()).jobs.length, 0);
});
