/** Replays with a changed agent, of runs that have not ended, and of runs that cannot be replayed. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Tool } from '../../src/index.ts';
import { CountingBackend } from '../fakes/counting-backend.ts';
import { type HttpBrain, httpBrain, refusalsOf } from '../fakes/http-brain.ts';
import { type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';
import { call, type Json, replay } from './replay-kit.ts';

const AGENT = {
  name: 'clerk',
  model: 'scripted',
  instructions: 'Help with orders. Be short.',
  tools: ['look', 'send'],
};
const configOf = (agent: object): string => `agents: ${JSON.stringify([agent])}\n`;

/** The tools that were called, in every brain of this file. */
const called: string[] = [];

const TOOLS: readonly Tool[] = ['look', 'send', 'other'].map((name) => ({
  name,
  description: `The tool ${name}.`,
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: () => {
    called.push(name);
    return `${name} is done`;
  },
}));

/** Looks, looks and sends at once, then answers. */
const script = (turn: number): Said => {
  if (turn === 0) return { calls: [['a', 'look', {}]] };
  if (turn === 1)
    return {
      calls: [
        ['b', 'look', { n: 2 }],
        ['c', 'send', {}],
      ],
    };
  return { text: 'It is sent.' };
};

async function site(
  t: TestContext,
  data = 'memory',
  agent: object = AGENT,
  model = new ScriptedModel(script),
) {
  const brain = await httpBrain({
    ...placed({ data, config: configOf(agent) }),
    backends: [new CountingBackend(model.backend({ models: ['scripted', 'large'] }))],
    tools: TOOLS,
    tokens: [],
  });
  t.after(() => brain.stop());
  return brain;
}

async function recorded(t: TestContext, data = 'memory'): Promise<HttpBrain> {
  const brain = await site(t, data);
  await call(brain, 'POST', '/v2/agents/clerk/runs', { run_id: 'r', input: 'Where is order 7?' });
  await within(brain.orchestrator.wait('r'));
  return brain;
}

describe('a replay with a changed agent', () => {
  onStores('names the first step that differs, and how', LASTING, async (t, data) => {
    const brain = await recorded(t, data);
    const changed = (change: object): Promise<Json> => replay(brain, 'r', { agent: { ...AGENT, ...change } });
    assert.equal((await changed({})).equal, true);
    assert.equal((await changed({ name: 'renamed', description: 'Another text.' })).equal, true);
    const edited = await changed({ instructions: 'Help with orders. Be kind.' });
    assert.deepEqual([edited.equal, edited.steps, edited.against], [false, 0, 'given']);
    assert.partialDeepStrictEqual(edited.difference, {
      step: 1,
      event: 'llm_call',
      job_id: 'r.1',
      field: 'payload.messages[0].content',
    });
    assert.match(
      edited.difference.text,
      /^step 1 \(llm_call\): message 1 \(system\) was ".*Be short.*", is now ".*Be kind/,
    );
    const first = async (change: object): Promise<unknown[]> => {
      const { difference, steps } = await changed(change);
      return [difference.step, difference.field, steps];
    };
    assert.deepEqual(await first({ model: 'large' }), [1, 'model', 0]);
    assert.deepEqual(await first({ plan: 'always' }), [1, 'tags.event', 0]);
    assert.deepEqual(await first({ tools: ['look', 'send', 'other'] }), [1, 'payload.tools[2]', 0]);
    assert.deepEqual(await first({ tools: ['look'] }), [1, 'payload.tools[1]', 0]);
    // Later steps: a call that must be allowed, one that is too many, an answer that has to come early.
    assert.deepEqual(await first({ approve: ['send'] }), [4, 'type', 3]);
    assert.deepEqual(await first({ parallel_tools: 1 }), [4, 'calls', 3]);
    assert.deepEqual(await first({ max_steps: 2 }), [3, 'payload.messages[4]', 2]);
    assert.deepEqual(await first({ output: { type: 'object' } }), [6, 'calls', 5]);
    // Of the 15 tokens of each call, 30 were used before the third one.
    assert.equal(
      (await changed({ budget: { tokens: 100_000 }, max_tokens: 50 })).difference.field,
      'payload.max_tokens',
    );
    const unknown = await call(brain, 'POST', '/v2/runs/r/replay', {
      agent: { ...AGENT, tools: ['nobody'] },
    });
    assert.deepEqual([unknown.status, unknown.body.error.code], [400, 'INVALID_PARAMS']);
    assert.match(unknown.body.error.message, /"nobody"/);
    const wrong = await call(brain, 'POST', '/v2/runs/r/replay', { agent: { name: 'x' } });
    assert.deepEqual([wrong.status, wrong.body.error.code], [400, 'INVALID_PARAMS']);
  });

  onStores('takes the agent as it is configured now, if that is asked for', LASTING, async (t, data) => {
    const before = await recorded(t, data);
    assert.equal((await replay(before, 'r', { agent: 'current' })).equal, true);
    await before.stop();
    const after = await site(t, data, { ...AGENT, instructions: 'Help with letters.' });
    assert.deepEqual(
      [(await replay(after, 'r')).equal, (await replay(after, 'r')).against],
      [true, 'recorded'],
    );
    const { equal, against, difference } = await replay(after, 'r', { agent: 'current' });
    assert.deepEqual([equal, against, difference.step], [false, 'current', 1]);
    await after.stop();
    const other = await site(t, data, { ...AGENT, name: 'another' });
    assert.equal((await replay(other, 'r')).equal, true, 'the run has its own agent');
    const { status, body } = await call(other, 'POST', '/v2/runs/r/replay', { agent: 'current' });
    assert.deepEqual([status, body.error.code], [404, 'NOT_FOUND']);
  });
});

describe('a replay', () => {
  onStores('calls no tool and submits nothing, whatever agent it is with', LASTING, async (t, data) => {
    const brain = await recorded(t, data);
    const newest = async (): Promise<unknown> =>
      (await brain.orchestrator.list({ limit: 1 })).jobs[0]?.job_id;
    const before = [called.length, await newest()];
    for (const body of [{}, { agent: 'current' }, { agent: { ...AGENT, instructions: 'Other ones.' } }])
      await replay(brain, 'r', body);
    await call(brain, 'GET', '/v2/runs/r/record');
    assert.equal(called.length, before[0], 'a replay has called a tool');
    assert.equal(await newest(), before[1], 'a replay has submitted a job');
  });

  onStores('goes as far as a run has come that waits, or was cancelled', LASTING, async (t, data) => {
    const asked = Promise.withResolvers<void>();
    const model = new ScriptedModel((turn, _heard, { signal }) => {
      if (turn < 2) return script(turn);
      asked.resolve();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    });
    const brain = await site(t, data, AGENT, model);
    await call(brain, 'POST', '/v2/agents/clerk/runs', { run_id: 'r', input: 'Where is order 7?' });
    await within(asked.promise);
    const partial = [true, 5, false];
    const live = await replay(brain, 'r');
    assert.deepEqual([live.equal, live.steps, live.has_end], partial);
    await call(brain, 'POST', '/v2/runs/r/cancel');
    await within(brain.orchestrator.wait('r'));
    const ended = await replay(brain, 'r');
    assert.deepEqual([ended.equal, ended.steps, ended.has_end], partial);
  });

  test('is refused for a job that is no run, for one that there is not, and for one that has not begun', async (t) => {
    const brain = await recorded(t);
    const codeOf = async (id: string): Promise<unknown[]> => {
      const { status, body } = await call(brain, 'POST', `/v2/runs/${id}/replay`, {});
      return [status, body.error.code];
    };
    assert.deepEqual(await codeOf('r.1'), [404, 'NOT_FOUND']);
    assert.deepEqual(await codeOf('nobody'), [404, 'NOT_FOUND']);
    await brain.orchestrator.submit({
      job_id: 'later',
      type: 'agent',
      not_before: Date.now() + 1e9,
      payload: { agent: 'clerk', input: 'x' },
    });
    assert.deepEqual(await codeOf('later'), [409, 'ILLEGAL_STATE']);
  });

  onStores(
    'of a run in a session begins with what was said before; a deleted session is gone',
    LASTING,
    async (t, data) => {
      const brain = await site(t, data);
      for (const id of ['first', 'second']) {
        await call(brain, 'POST', '/v2/agents/clerk/runs', {
          run_id: id,
          input: `question ${id}`,
          session_id: 's',
        });
        await within(brain.orchestrator.wait(id));
      }
      const { equal, steps } = await replay(brain, 'second');
      assert.deepEqual([equal, steps], [true, 1]);
      const { body: saved } = await call(brain, 'GET', '/v2/runs/second/record');
      assert.match(JSON.stringify(saved.head.conversation), /question first/);
      await call(brain, 'DELETE', '/v2/sessions/s');
      for (const [method, path, body] of [
        ['POST', 'replay', {}],
        ['GET', 'record', undefined],
        ['POST', 'fork', { step: 1, run_id: 'f' }],
      ] as const) {
        const refused = await call(brain, method, `/v2/runs/second/${path}`, body);
        assert.deepEqual([refused.status, refused.body.error.code], [410, 'RUN_GONE'], path);
      }
      assert.equal((await call(brain, 'GET', '/v2/runs/f')).status, 404, 'nothing was started');
      const told = refusalsOf(brain).map(({ error_code, route }) => [error_code, route]);
      assert.deepEqual(told, [['RUN_GONE', 'POST /v2/runs/:id/fork']]);
    },
  );
});
