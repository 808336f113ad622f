/** Agents over HTTP: starting, looking at, following and cancelling their runs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, type TestContext, test } from 'node:test';
import type { Tool } from '../../src/index.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { type SseEvent, SseReader } from '../../src/wire/sse.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { turns, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: helper, description: Helps., model: scripted, tools: [look]}
`;

const LOOK: Tool = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: () => 'seen',
};

async function site(
  t: TestContext,
  model: ScriptedModel,
  options: Pick<HttpBrainOptions, 'disconnectGraceMs'> = {},
): Promise<HttpBrain> {
  const brain = await httpBrain({ config: CONFIG, backends: [model.backend()], tools: [LOOK], ...options });
  t.after(() => brain.stop());
  return brain;
}

interface Answered {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
  readonly body: any;
}

async function call({ url }: HttpBrain, method: string, path: string, body?: object): Promise<Answered> {
  const response = await fetch(url + path, {
    method,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

const start = (brain: HttpBrain, body: object): Promise<Answered> =>
  call(brain, 'POST', '/v2/agents/helper/runs', body);

/** All events of a stream, until it ends or `until` has seen enough. */
async function events(
  { url }: HttpBrain,
  path: string,
  { last, until = () => false }: { last?: string; until?: (event: SseEvent) => boolean } = {},
): Promise<SseEvent[]> {
  const seen: SseEvent[] = [];
  let isEnough = false;
  const reader = new SseReader((event) => {
    if (isEnough) return;
    seen.push(event);
    isEnough = until(event);
  });
  const response = await fetch(url + path, { headers: last === undefined ? {} : { 'last-event-id': last } });
  assert.equal(response.status, 200);
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    reader.push(Buffer.from(piece).toString());
    if (isEnough) break;
  }
  return seen;
}

const HELLO = { role: 'user', content: 'hello' };
const dataOf = ({ data }: SseEvent) => JSON.parse(data);
const textOf = (seen: readonly SseEvent[]): string =>
  seen
    .filter(({ event }) => event === 'token')
    .map((event) => dataOf(event).t)
    .join('');

describe('agents over HTTP', () => {
  test('are listed, run, followed to the end and looked at', async (t) => {
    const model = new ScriptedModel((turn) =>
      turn === 0 ? { calls: [['a', 'look', {}]] } : { text: 'I have seen it' },
    );
    const brain = await site(t, model);
    const { agents } = (await call(brain, 'GET', '/v2/agents')).body;
    assert.deepEqual(
      agents.map(({ version, ...agent }: { version: string }) => [agent, version.length]),
      [[{ name: 'helper', description: 'Helps.', model: 'scripted', tools: ['look'] }, 12]],
    );
    const started = await start(brain, { run_id: 'r', input: 'look!' });
    assert.equal(started.status, 202);
    const { version: _, ...run } = started.body;
    assert.deepEqual(run, { run_id: 'r', agent: 'helper', events_url: '/v2/runs/r/events' });
    const seen = await within(events(brain, '/v2/runs/r/events'));
    assert.equal(textOf(seen).trim(), 'I have seen it');
    assert.deepEqual(dataOf(seen.findLast(({ event }) => event === 'tool_result')!).result, {
      ok: true,
      text: 'seen',
    });
    const end = dataOf(seen.at(-1)!);
    assert.deepEqual(
      [seen.at(-1)?.event, end.run_id, end.reply, end.error],
      ['end', 'r', 'I have seen it', null],
    );
    const { body: view } = await call(brain, 'GET', '/v2/runs/r');
    assert.deepEqual([view.state, view.reply, view.steps.length], ['completed', 'I have seen it', 3]);
    assert.match(view.trace_id, /^[0-9a-f]{32}$/);
    const { jobs } = (await call(brain, 'GET', '/v2/tasks?root=r')).body as { jobs: { job_id: string }[] };
    assert.deepEqual(
      jobs.map(({ job_id }) => job_id),
      ['r.3', 'r.2.0', 'r.1'],
    );
    const again = await start(brain, { run_id: 'r', input: 'look!' });
    assert.deepEqual([again.status, again.body.duplicate], [202, true]);
    assert.equal((await start(brain, { run_id: 'r', input: 'another' })).status, 409);
  });

  test('a run and its calls go on when somebody who looked at their jobs has left', async (t) => {
    const goOn = Promise.withResolvers<void>();
    const model = new ScriptedModel(async (_turn, _heard, context) => {
      context.emit('one ');
      await Promise.race([goOn.promise, once(context.signal, 'abort')]);
      context.signal.throwIfAborted();
      return { text: 'two' };
    });
    const brain = await site(t, model, { disconnectGraceMs: 1 });
    await start(brain, { run_id: 'r', input: 'count' });
    const until = ({ event }: SseEvent) => event === 'token' || event === 'waiting';
    for (const id of ['r', 'r.1']) await within(events(brain, `/v2/tasks/${id}/events`, { until }));
    // An interactive job without a run is left after them: were they cancelled, they would be before it.
    await call(brain, 'POST', '/v2/tasks', {
      job_id: 'j',
      model: 'scripted',
      messages: [{ role: 'user', content: 'p' }],
      priority: 'interactive',
    });
    await within(events(brain, '/v2/tasks/j/events', { until }));
    await within(brain.orchestrator.wait('j'));
    assert.equal((await call(brain, 'GET', '/v2/tasks/j')).body.state, 'cancelled');
    goOn.resolve();
    const seen = await within(events(brain, '/v2/runs/r/events'));
    assert.equal(dataOf(seen.at(-1)!).reply, 'two');
    assert.equal(model.heard.length, 2, 'the call of the run was not made again');
  });

  test('a stream that was cut goes on behind the last event, and one that comes late gets the end', async (t) => {
    const goOn = Promise.withResolvers<void>();
    const model = new ScriptedModel(async (_turn, _heard, context) => {
      context.emit('one ');
      context.emit('two ');
      await goOn.promise;
      return { text: 'three' };
    });
    const brain = await site(t, model);
    await start(brain, { run_id: 'r', input: 'count' });
    const first = await within(
      events(brain, '/v2/runs/r/events', {
        until: (event) => event.event === 'token' && dataOf(event).t === 'two ',
      }),
    );
    const last = first.findLast(({ event }) => event === 'token');
    assert.deepEqual([textOf(first), dataOf(last!).job_id], ['one two ', 'r.1']);
    const following = events(brain, '/v2/runs/r/events', { last: last?.id ?? '' });
    goOn.resolve();
    const rest = await within(following);
    assert.equal(textOf(rest), 'three');
    const late = await within(events(brain, '/v2/runs/r/events'));
    assert.equal(dataOf(late.at(-1)!).reply, 'three');
    const read = await fetch(`${brain.url}/v2/runs/r/events`, { headers: { 'last-event-id': 'end' } });
    assert.equal(read.status, 204);
    const bad = await fetch(`${brain.url}/v2/runs/r/events`, { headers: { 'last-event-id': 'x' } });
    assert.equal(bad.status, 400);
  });

  test('a run shows what it waits for, and is cancelled with the call of its model', async (t) => {
    const began = Promise.withResolvers<void>();
    const model = new ScriptedModel((_turn, _heard, { signal }) => {
      began.resolve();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    });
    const brain = await site(t, model);
    await start(brain, { run_id: 'r', input: 'wait' });
    const followed = events(brain, '/v2/runs/r/events');
    await within(began.promise);
    const { body } = await call(brain, 'GET', '/v2/runs/r');
    assert.deepEqual(
      [body.state, body.waits_for],
      ['llm_call', [{ job_id: 'r.1', type: 'inference', state: 'running' }]],
    );
    assert.equal((await call(brain, 'POST', '/v2/runs/r/cancel')).status, 202);
    const end = (await within(followed)).at(-1);
    assert.deepEqual([end?.event, dataOf(end!).state], ['error', 'cancelled']);
    assert.equal((await call(brain, 'GET', '/v2/runs/r')).body.state, 'cancelled');
  });

  test('a run that has failed is shown as such where jobs are, also from the history', async (t) => {
    const model = new ScriptedModel((_turn, { messages }) => {
      if (messages.at(-1)?.content === 'fail') throw new Error('no');
      return { text: 'well' };
    });
    const brain = await site(t, model);
    await start(brain, { run_id: 'bad', input: 'fail' });
    await start(brain, { run_id: 'good', input: 'go' });
    await call(brain, 'POST', '/v2/tasks', { job_id: 'plain', model: 'scripted', messages: [HELLO] });
    for (const id of ['bad', 'good', 'plain']) await within(brain.orchestrator.wait(id));
    const shown = async () => {
      const { jobs } = (await call(brain, 'GET', '/v2/tasks')).body as {
        jobs: { job_id: string; state: string; run_state?: string }[];
      };
      const found = jobs.filter(({ job_id: id }) => ['bad', 'good', 'plain'].includes(id));
      return found.map(({ job_id: id, state, run_state: run }) => [id, state, run]).toSorted();
    };
    const expected = [
      ['bad', 'succeeded', 'failed'],
      ['good', 'succeeded', 'completed'],
      ['plain', 'succeeded', undefined],
    ];
    assert.deepEqual(await shown(), expected);
    const { state } = Orchestrator.engineOf(brain.orchestrator);
    while (state.jobs.size > 0) await turns(1);
    assert.deepEqual(await shown(), expected);
    assert.equal((await call(brain, 'GET', '/v2/tasks/bad')).body.run_state, 'failed');
    assert.equal((await call(brain, 'GET', '/v2/runs/bad')).body.state, 'failed');
  });

  test('the dead calls of a run that has ended cannot be redriven, one by one or all together', async (t) => {
    const model = new ScriptedModel(() => {
      throw new Error('no');
    });
    const brain = await site(t, model);
    await start(brain, { run_id: 'r', input: 'try' });
    const { result } = await within(brain.orchestrator.wait('r'));
    assert.equal((result as { error: { code: string } }).error.code, 'EXECUTION_FAILED');
    const { state } = Orchestrator.engineOf(brain.orchestrator);
    while (state.jobs.has('r') || state.jobs.has('r.1')) await turns(1);
    const one = await call(brain, 'POST', '/v2/tasks/r.1/redrive');
    assert.deepEqual([one.status, one.body.error.code], [409, 'ILLEGAL_STATE']);
    const all = await call(brain, 'POST', '/v2/tasks/redrive', { root: 'r' });
    assert.deepEqual([all.body.matched, all.body.changed, all.body.refused], [2, 0, 2]);
  });

  test('a run that waits for a model says so', async (t) => {
    const model = new ScriptedModel((_turn, _heard, { signal }) => {
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    });
    const brain = await httpBrain({ config: CONFIG, backends: [model.backend({ slots: 1 })], tools: [LOOK] });
    t.after(() => brain.stop());
    for (const run_id of ['a', 'b']) await start(brain, { run_id, input: 'hello' });
    const states = new Set<string>();
    while (!states.has('llm_queued') || !states.has('llm_call'))
      for (const id of ['a', 'b']) states.add((await call(brain, 'GET', `/v2/runs/${id}`)).body.state);
    for (const id of ['a', 'b'])
      assert.equal((await call(brain, 'POST', `/v2/runs/${id}/cancel`)).status, 202);
  });

  test('what is wrong is refused with a code, and changes nothing', async (t) => {
    const brain = await site(t, new ScriptedModel(() => ({ text: 'x' })));
    const codeOf = async (...args: Parameters<typeof call> extends [unknown, ...infer R] ? R : never) => {
      const { status, body } = await call(brain, ...args);
      return [status, body.error.code];
    };
    assert.deepEqual(await codeOf('POST', '/v2/agents/nobody/runs', { input: 'x' }), [404, 'NOT_FOUND']);
    assert.deepEqual(await codeOf('POST', '/v2/agents/helper/runs', {}), [400, 'INVALID_PARAMS']);
    const both = { input: 'x', messages: [{ role: 'user', content: 'y' }] };
    assert.deepEqual(await codeOf('POST', '/v2/agents/helper/runs', both), [400, 'INVALID_PARAMS']);
    assert.deepEqual(await codeOf('POST', '/v2/agents/helper/runs', { input: 'x', run_id: 'a/b' }), [
      400,
      'INVALID_PARAMS',
    ]);
    const forged = { messages: [{ role: 'tool', content: 'y' }] };
    assert.deepEqual(await codeOf('POST', '/v2/agents/helper/runs', forged), [400, 'INVALID_PARAMS']);
    // It would be the id of a job of the run `r`.
    assert.deepEqual(await codeOf('POST', '/v2/agents/helper/runs', { input: 'x', run_id: 'r.1' }), [
      400,
      'INVALID_PARAMS',
    ]);
    assert.deepEqual(await codeOf('GET', '/v2/runs/none'), [404, 'NOT_FOUND']);
    assert.deepEqual(await codeOf('GET', '/v2/runs/none/events'), [404, 'NOT_FOUND']);
    assert.deepEqual(await codeOf('POST', '/v2/runs/none/cancel'), [404, 'NOT_FOUND']);
    const tool = { type: 'tool', payload: { agent: 'helper', tool: 'look', args: {} } };
    assert.deepEqual(await codeOf('POST', '/v2/tasks', tool), [400, 'INVALID_PARAMS']);
    // It would be the id of a job below one whose id orchd has made.
    const below = { job_id: `${'0a'.repeat(16)}.1`, model: 'scripted', prompt: 'x' };
    assert.deepEqual(await codeOf('POST', '/v2/tasks', below), [400, 'INVALID_PARAMS']);
    assert.deepEqual((await call(brain, 'GET', '/v2/tasks')).body.jobs, []);
    // A job that is no run cannot be looked at, or cancelled, as one.
    await call(brain, 'POST', '/v2/tasks', { job_id: 'plain', model: 'scripted', prompt: 'x' });
    assert.deepEqual(await codeOf('GET', '/v2/runs/plain'), [404, 'NOT_FOUND']);
    assert.deepEqual(await codeOf('POST', '/v2/runs/plain/cancel'), [404, 'NOT_FOUND']);
  });
});
