/** The table of tools against the routes that they use, and against what clients of the protocol expect. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Compile } from 'typebox/schema';
import { type HttpBrain, httpBrain } from '../../../test/fakes/http-brain.ts';
import { ScriptedModel } from '../../../test/fakes/scripted-model.ts';
import { turns } from '../../../test/flow/flow-kit.ts';
import { VirtualEnv } from '../../../test/flow/virtual-env.ts';
import { OrchdClient } from '../../client/client.ts';
import type { Env } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import { readMessage } from './message.ts';
import type { Reply } from './protocol.ts';
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

/** The answers of the tools, with a real brain behind them; `world` has their time. */
function toolsOf(brain: HttpBrain, world: Pick<Env, 'clock' | 'timers'>) {
  const exchange: McpExchange = {
    version: '1',
    brain: new OrchdClient({ url: brain.url }),
    clock: world.clock,
    timers: world.timers,
    newId: () => 'made',
    signal: new AbortController().signal,
    mayUse: () => true,
    notify: () => undefined,
  };
  return async (name: unknown, args: unknown): Promise<Reply> => {
    const params = { name, arguments: args };
    const message = readMessage({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
    assert.ok(message.is === 'request');
    return (await answerRequest(message, exchange)) as Reply;
  };
}

/** What a call has returned: its content, or the code of the error that its request got. */
const shownBy = (reply: Reply): Record<string, unknown> =>
  'result' in reply ? (reply.result['structuredContent'] as never) : { code: reply.error.code };

test('wrong arguments are an error of the call that names the field, and nothing is submitted', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const call = toolsOf(brain, realEnv());
  const reply = await call('submit_job', { promt: 'x' });
  assert.ok('result' in reply && reply.result['isError'] === true);
  const { code, field, message } = shownBy(reply)['error'] as Record<string, string>;
  assert.deepEqual([code, field], ['INVALID_PARAMS', 'promt']);
  assert.match(message ?? '', /did you mean "prompt"/);
  for (const [name, args] of [
    ['submit_jobs', {}],
    ['__proto__', {}],
    [5, {}],
    [undefined, {}],
    ['submit_job', []],
    ['submit_job', 'x'],
  ])
    assert.equal(shownBy(await call(name, args))['code'], -32602, JSON.stringify([name, args]));
  assert.equal((await brain.orchestrator.list()).jobs.length, 0);
});

test('a wait for a run ends at once where nothing happens without a person', {
  timeout: 60_000,
}, async (t) => {
  const model = new ScriptedModel(() => ({ calls: [['c1', 'current_time', {}]] }));
  const agent = { name: 'careful', model: 'scripted', tools: ['current_time'], approve: ['current_time'] };
  const brain = await httpBrain({ backends: [model.backend()], config: JSON.stringify({ agents: [agent] }) });
  t.after(() => brain.stop());
  const client = new OrchdClient({ url: brain.url });
  await client.startRun('careful', { input: 'x', run_id: 'r' });
  while ((await client.run('r')).state !== 'awaiting_approval') await turns();
  // Time stands still: a wait that went on would never end.
  const call = toolsOf(brain, new VirtualEnv());
  const shown = shownBy(await call('wait_for_run', { run_id: 'r' }));
  assert.deepEqual([shown['state'], shown['ended']], ['awaiting_approval', false]);
  await client.orderRun('r', 'pause');
  assert.equal(shownBy(await call('wait_for_run', { run_id: 'r' }))['state'], 'paused');
});
