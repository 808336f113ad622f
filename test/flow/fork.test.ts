/** Forks: runs that take the first steps of another run from its records, and go on for real in another way. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Tool } from '../../src/index.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { CountingBackend } from '../fakes/counting-backend.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { type Heard, type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { isDatabase, LASTING, onStores, placed, STORES, within } from './flow-kit.ts';
import { call, type Json, replay } from './replay-kit.ts';

const CONFIG = `
agents:
  - {name: clerk, model: small, instructions: Be short., tools: [look, send], approve: [send], max_steps: 4, budget: {tokens: 100000}}
`;

interface Site {
  readonly brain: HttpBrain;
  readonly made: string[];
  /** What was asked of models, by the id of the call. */
  readonly asked: Map<string, Heard & { readonly model: string | undefined }>;
}

/** Looks, sends, answers. */
function script(turn: number): Said {
  if (turn === 0) return { calls: [['a', 'look', {}]] };
  return turn === 1 ? { calls: [['b', 'send', {}]] } : { text: `the answer after ${turn}` };
}

async function site(t: TestContext, data = 'memory', config = CONFIG): Promise<Site> {
  const made: string[] = [];
  const asked: Site['asked'] = new Map();
  const tools: readonly Tool[] = ['look', 'send'].map((name) => ({
    name,
    description: `The tool ${name}.`,
    parameters: { type: 'object', properties: {} },
    effect: name === 'send' ? 'effectful' : 'pure',
    run: (_args, { jobId }) => {
      made.push(`${name} ${jobId}`);
      return `${name} is done`;
    },
  }));
  const model = new ScriptedModel((turn, heard, { jobId, model: name }) => {
    asked.set(jobId, { ...heard, model: name });
    return script(turn);
  });
  const brain = await httpBrain({
    ...placed({ data, config }),
    backends: [new CountingBackend(model.backend({ models: ['small', 'large'] }))],
    tools,
  });
  t.after(() => brain.stop());
  return { brain, made, asked };
}

async function allow({ brain }: Site, callId: string): Promise<void> {
  const [run] = callId.split('.');
  const answer = { call_id: callId, approve: true };
  while ((await call(brain, 'POST', `/v2/runs/${run}/approve`, answer)).status !== 200);
}

/** A run with the steps: model, look, model, approval of send, send, model. */
async function origin(place: Site, session?: string): Promise<Json> {
  const { brain } = place;
  const request = { run_id: 'r', input: 'Send order 7.', ...(session && { session_id: session }) };
  await call(brain, 'POST', '/v2/agents/clerk/runs', request);
  await within(allow(place, 'r.4.0'));
  return (await within(brain.orchestrator.wait('r'))).result;
}

const fork = (brain: HttpBrain, body: object) => call(brain, 'POST', '/v2/runs/r/fork', body);

describe('a fork', () => {
  onStores(
    'takes the steps before it from the run without a call, and goes on with another model and other instructions',
    STORES,
    async (t, data) => {
      const place = await site(t, data);
      const { brain, made, asked } = place;
      const { reply } = await origin(place);
      assert.deepEqual([reply, made.length, asked.size], ['the answer after 2', 2, 3]);
      const request = {
        step: 3,
        run_id: 'f',
        model: 'large',
        instructions: 'Be kind.',
        input: 'It is urgent.',
      };
      const started = await fork(brain, request);
      assert.deepEqual([started.status, started.body.run_id, started.body.agent], [202, 'f', 'clerk']);
      await within(allow(place, 'f.2.0'));
      const { result } = (await within(brain.orchestrator.wait('f'))) as Json;
      assert.equal(result.error, null);
      // Its own calls: the model twice, and send, which somebody had to allow anew. Look was not called again.
      assert.deepEqual([...asked.keys()].slice(3), ['f.1', 'f.4']);
      assert.deepEqual(made.slice(2), ['send f.3.0']);
      const first = asked.get('f.1') as Json;
      assert.equal(first.model, 'large');
      assert.match(first.messages[0].content, /^Be kind\./);
      const before = (asked.get('r.3') as Json).messages.slice(1);
      assert.deepEqual(first.messages.slice(1), [...before, { role: 'user', content: 'It is urgent.' }]);
      assert.deepEqual(
        result.steps.map(({ job_id: id }: Json) => id),
        ['f.1', 'f.3.0', 'f.4'],
      );
      const { body: view } = await call(brain, 'GET', '/v2/runs/f');
      assert.deepEqual(view.forked_from, { run_id: 'r', step: 3 });
      const { jobs } = await brain.orchestrator.list({ tag: ['forked_from=r'] } as never);
      assert.deepEqual(
        jobs.map(({ job_id: id }: Json) => id),
        ['f'],
      );
      // A fork is a run like any other: it is replayed, and forked again.
      const { equal, steps } = await replay(brain, 'f');
      assert.deepEqual([equal, steps], [true, 4]);
      const again = await call(brain, 'POST', '/v2/runs/f/fork', { step: 4, run_id: 'g' });
      assert.equal(again.status, 202);
      assert.equal(((await within(brain.orchestrator.wait('g'))) as Json).result.steps.length, 1);
      assert.equal((await replay(brain, 'g')).equal, true);
    },
  );

  onStores(
    'is started once for one run_id, survives a restart, and is told in the audit',
    LASTING,
    async (t, data) => {
      const place = await site(t, data);
      await origin(place);
      const request = { step: 6, run_id: 'f' };
      assert.equal((await fork(place.brain, request)).status, 202);
      await place.brain.stop();
      const after = await site(t, data);
      await within(after.brain.orchestrator.wait('f'));
      const repeated = await fork(after.brain, request);
      assert.deepEqual([repeated.status, repeated.body.duplicate], [202, true]);
      const other = await fork(after.brain, { ...request, model: 'large' });
      assert.deepEqual([other.status, other.body.error.code], [409, 'JOB_CONFLICT']);
      assert.equal([...place.asked.keys(), ...after.asked.keys()].filter((id) => id === 'f.1').length, 1);
      if (!isDatabase(data)) return;
      const sql = await connector(data)();
      t.after(() => sql.close());
      const rows = await sql.query<{ details: string }>(
        `SELECT details FROM orchestrator_audit WHERE subject = 'f' AND event_type LIKE 'ask:%'`,
        [],
      );
      assert.match(
        rows[0]?.details ?? '',
        /"forked_from":"r".*"forked_step":"6"|"forked_step":"6".*"forked_from":"r"/,
      );
    },
  );

  test('is charged for what it calls itself: steps, tokens and the budget of the request begin anew', async (t) => {
    const place = await site(t);
    await origin(place);
    // The origin has used three of its four calls of the model.
    await fork(place.brain, { step: 3, run_id: 'f', budget: { tokens: 5000 } });
    await within(allow(place, 'f.2.0'));
    const { budget } = await place.brain.orchestrator.get('f');
    assert.deepEqual([budget?.tokens, budget?.tokens_used], [5000, 15]);
    const { result } = (await within(place.brain.orchestrator.wait('f'))) as Json;
    assert.deepEqual([result.error, result.reply], [null, 'the answer after 2']);
  });

  onStores('has no more than the agent of its name may use now', LASTING, async (t, data) => {
    const before = await site(t, data);
    await origin(before);
    await before.brain.stop();
    const place = await site(
      t,
      data,
      CONFIG.replace('100000', '900').replace('max_steps: 4', 'max_steps: 1'),
    );
    await fork(place.brain, { step: 1, run_id: 'f', budget: { tokens: 50_000 } });
    const { result } = (await within(place.brain.orchestrator.wait('f'))) as Json;
    const { record } = result;
    assert.deepEqual([record.agent.budget, record.agent.max_steps], [{ tokens: 900 }, 1]);
    assert.equal(result.steps[0].job_id, 'f.1');
  });

  test('asks anew for a call that was allowed to its origin', async (t) => {
    const place = await site(t);
    await origin(place);
    // In step 5 of the origin, the call is made that was allowed in step 4.
    await fork(place.brain, { step: 5, run_id: 'f' });
    const stateNow = async (): Promise<string> => (await call(place.brain, 'GET', '/v2/runs/f')).body.state;
    while (!/awaiting_approval|completed|failed/.test(await stateNow()));
    assert.equal(await stateNow(), 'awaiting_approval');
    await within(allow(place, 'f.1.0'));
    await within(place.brain.orchestrator.wait('f'));
    assert.deepEqual(place.made.slice(1), ['send r.5.0', 'send f.2.0']);
  });

  onStores(
    'of a run in a session belongs to that session, and adds nothing to its conversation',
    LASTING,
    async (t, data) => {
      const place = await site(t, data);
      const { brain } = place;
      await origin(place, 's');
      const messages = async (): Promise<number> =>
        (await call(brain, 'GET', '/v2/sessions/s')).body.messages;
      const before = await messages();
      await fork(brain, { step: 6, run_id: 'f' });
      const { session_id: session, result } = (await within(brain.orchestrator.wait('f'))) as Json;
      assert.deepEqual([session, result.error, await messages()], ['s', null, before]);
      assert.equal((await replay(brain, 'f')).equal, true);
      // Whoever names another session would take what was said out of the first one, where a delete finds it no more.
      const payload = { agent: 'clerk', fork: { run: 'r', step: 1 } };
      await brain.orchestrator.submit({ job_id: 'stolen', type: 'agent', payload });
      const { state, error } = await within(brain.orchestrator.wait('stolen'));
      assert.deepEqual([state, error?.code], ['dead', 'INVALID_PARAMS']);
      await call(brain, 'DELETE', '/v2/sessions/s');
      assert.equal((await call(brain, 'POST', '/v2/runs/f/replay', {})).body.error.code, 'RUN_GONE');
    },
  );

  test('of the run of another tenant is 404, as are its record and its replay', async (t) => {
    const { brain, asked } = await site(t);
    const caller = { tenant: 'lab', submittedBy: 'ada', principal: 'ada' };
    const payload = { agent: 'clerk', input: 'Send order 7.' };
    await brain.orchestrator.submit({ job_id: 'r', type: 'agent', payload }, caller as never);
    while (asked.size < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    for (const [method, path, body] of [
      ['POST', 'fork', { step: 1, run_id: 'f' }],
      ['POST', 'replay', {}],
      ['GET', 'record', undefined],
    ] as const)
      assert.equal((await call(brain, method, `/v2/runs/r/${path}`, body)).status, 404, path);
    // Nor can a fork be made of it in another way.
    const stolen = { agent: 'clerk', fork: { run: 'r', step: 1 } };
    await brain.orchestrator.submit({ job_id: 'f', type: 'agent', payload: stolen });
    const { state, error } = await within(brain.orchestrator.wait('f'));
    assert.deepEqual([state, error?.code], ['dead', 'NOT_FOUND']);
  });

  test('is refused with a clear code, and nothing starts', async (t) => {
    const place = await site(t);
    const { brain, asked } = place;
    await origin(place);
    const codes = async (body: object, id = 'r'): Promise<unknown[]> => {
      const { status, body: said } = await call(brain, 'POST', `/v2/runs/${id}/fork`, {
        run_id: 'f',
        ...body,
      });
      return [status, said.error.code, said.error.field];
    };
    assert.deepEqual(await codes({}), [400, 'INVALID_PARAMS', 'step']);
    assert.deepEqual(await codes({ step: 0 }), [400, 'INVALID_PARAMS', 'step']);
    assert.deepEqual(await codes({ step: 7 }), [400, 'INVALID_PARAMS', 'step']);
    assert.deepEqual(await codes({ step: 2, input: 'x' }), [400, 'INVALID_PARAMS', 'input']);
    assert.deepEqual((await codes({ step: 1, instruction: 'x' }))[1], 'INVALID_PARAMS');
    assert.deepEqual((await codes({ step: 1 }, 'nobody')).slice(0, 2), [404, 'NOT_FOUND']);
    assert.deepEqual((await codes({ step: 1 }, 'r.1')).slice(0, 2), [404, 'NOT_FOUND']);
    assert.equal((await call(brain, 'GET', '/v2/runs/f')).status, 404);
    assert.equal(asked.size, 3);
  });
});
