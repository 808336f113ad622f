/** Runs of a session that was deleted: they stay, without what was said in them. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';
import { eventually } from './site-client.ts';

const CONFIG = `
agents:
  - {name: helper, model: scripted}
  - {name: caller, model: scripted, tools: [helper], background: [helper]}
`;
const GONE = { code: 'RUN_GONE', message: 'what was said in the run is no longer kept' };

/** What its model is to do, by the words of the question. */
const model = (mayAnswer: Promise<void>): ScriptedModel =>
  new ScriptedModel(async (_, { messages, tools }) => {
    const asked = messages.findLast(({ role }) => role === 'user')?.content ?? '';
    if (asked === 'fail') throw new Error('it cannot');
    if (tools && messages.at(-1)?.role === 'user' && asked === 'begin')
      return { calls: [['a', 'helper', { input: 'work' }]] };
    if (messages.at(-1)?.role === 'tool') {
      await mayAnswer;
      return { calls: [['b', 'none', {}]] };
    }
    return { text: `heard: ${messages.map(({ content }) => content).join(' / ')}` };
  });

async function site(t: TestContext, data: string, mayAnswer = Promise.resolve()) {
  const options = { ...placed({ data, config: CONFIG }), backends: [model(mayAnswer).backend()] };
  const brain = await httpBrain(options);
  t.after(() => brain.stop());
  const call = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
    fetch(`${brain.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
  const ended = (id: string) => within(brain.orchestrator.wait(id));
  return { brain, call, ended };
}

describe('a run whose session was deleted', () => {
  onStores('says how it has ended, and that nobody can read what was said', LASTING, async (t, data) => {
    const { call, ended } = await site(t, data);
    for (const [id, input] of Object.entries({ good: 'answer', bad: 'fail' })) {
      await call('POST', '/v2/agents/helper/runs', { run_id: id, session_id: 's', input });
      await ended(id);
    }
    const messages = [{ role: 'user', content: 'answer' }];
    const chat = async (model: string, stream: boolean): Promise<string> => {
      const headers = { 'X-Orchd-Session': 's', 'Idempotency-Key': `${model}-${stream}` };
      return (await call('POST', '/v1/chat/completions', { model, stream, messages }, headers)).text();
    };
    const chats = ['agent:helper', 'scripted'].flatMap((model) =>
      [true, false].map((stream) => () => chat(model, stream)),
    );
    for (const each of chats) assert.match(await each(), /heard: /);
    assert.equal((await call('DELETE', '/v2/sessions/s')).status, 204);
    for (const [id, state] of Object.entries({ good: 'completed', bad: 'failed' })) {
      const response = await call('GET', `/v2/runs/${id}`);
      assert.equal(response.status, 200);
      const { state: is, reply, steps, error } = (await response.json()) as Record<string, unknown>;
      assert.deepEqual([is, reply, steps, error], [state, undefined, undefined, GONE]);
      const events = await (await call('GET', `/v2/runs/${id}/events`)).text();
      assert.match(events, /^id: end\nevent: error\ndata: \{.*"code":"RUN_GONE".*\}\n\n$/);
    }
    for (const each of chats) assert.match(await each(), /"code":"(RUN|RESULT)_GONE"/);
  });
});

describe('a run that has begun another one in the background', () => {
  onStores('goes on when that one has ended and its session was deleted', LASTING, async (t, data) => {
    const mayAnswer = Promise.withResolvers<void>();
    const { brain, call, ended } = await site(t, data, mayAnswer.promise);
    await call('POST', '/v2/agents/caller/runs', { run_id: 'r', session_id: 's', input: 'begin' });
    const background = await eventually('the other one has begun', async () => {
      const { jobs } = await brain.orchestrator.list({ type: 'agent' });
      return jobs.find(({ job_id: id }) => id !== 'r')?.job_id;
    });
    await ended(background);
    assert.equal((await call('DELETE', `/v2/sessions/${background}`)).status, 204);
    mayAnswer.resolve();
    const { result } = await ended('r');
    const { error, reply } = result as { error: unknown; reply: string };
    assert.equal(error, null);
    assert.match(reply, /has not answered:.*what was said in the run is no longer kept/s);
  });
});
