/** Conversations: the messages of sessions, on every store. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { Orchestrator } from '../../src/index.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, STORES, start, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: helper, model: scripted, instructions: Help.}
`;
const LONG = 'long '.repeat(2000);

/** Says how many messages it has heard; breaks where it is asked to. */
const counter = (): ScriptedModel =>
  new ScriptedModel((_, { messages }) => {
    if (messages.at(-1)?.content === 'break') throw new Error('broken');
    return { text: `${messages.length} heard` };
  });

const begin = (t: TestContext, data: string, model: ScriptedModel): Promise<Orchestrator> =>
  start(t, { data, config: CONFIG, backends: [model.backend()] });

async function say(brain: Orchestrator, session: string, input: string): Promise<string> {
  const payload = { agent: 'helper', input };
  const { job_id } = await brain.submit({ type: 'agent', session_id: session, payload });
  return ((await within(brain.wait(job_id))).result as { reply: string }).reply;
}

const textsOf = async (brain: Orchestrator, session: string): Promise<string[]> =>
  ((await brain.reads.sessions.messages('default', session)) as { role: string; content: string }[]).map(
    ({ role, content }) => `${role}: ${content.trim().slice(0, 19)}`,
  );

describe('a session', () => {
  onStores('goes on with what was said in it, also after a restart', LASTING, async (t, data) => {
    const model = counter();
    let brain = await begin(t, data, model);
    assert.equal(await say(brain, 's', 'one'), '2 heard');
    assert.equal(await say(brain, 's', LONG), '4 heard');
    await brain.stop();
    brain = await begin(t, data, model);
    assert.equal(await say(brain, 's', 'three'), '6 heard');
    assert.deepEqual(
      model.heard.at(-1)?.messages.map(({ role }) => role),
      ['system', 'user', 'assistant', 'user', 'assistant', 'user'],
    );
    assert.deepEqual(await textsOf(brain, 's'), [
      'user: one',
      'assistant: 2 heard',
      'user: long long long long',
      'assistant: 4 heard',
      'user: three',
      'assistant: 6 heard',
    ]);
    assert.equal(await say(brain, 'other', 'one'), '2 heard');
  });

  onStores('is left as it was by a run that fails', STORES, async (t, data) => {
    const brain = await begin(t, data, counter());
    await say(brain, 's', 'one');
    await say(brain, 's', 'break');
    assert.deepEqual(await textsOf(brain, 's'), ['user: one', 'assistant: 2 heard']);
    assert.equal(await say(brain, 's', 'two'), '4 heard');
  });

  onStores('is created with messages and metadata, which can be changed', STORES, async (t, data) => {
    const brain = await begin(t, data, counter());
    const { sessions, reads } = brain;
    const messages = [
      { role: 'user', content: 'hello' },
      { role: 'assistant', content: LONG },
    ];
    const metadata = { mode: 'quiet', channel: 'cli', preferences: { language: 'de' } };
    const made = await sessions.create('default', 's', { messages, metadata });
    assert.deepEqual([made.messages, made.metadata], [2, metadata]);
    assert.equal(await say(brain, 's', 'and now?'), '4 heard');
    const changed = await sessions.change('default', 's', { mode: 'loud' });
    assert.deepEqual([changed.messages, changed.metadata], [4, { mode: 'loud' }]);
    assert.deepEqual((await reads.sessions.get('default', 's')).metadata, { mode: 'loud' });
    await assert.rejects(sessions.create('default', 's', {}), { code: 'SESSION_CONFLICT' });
    await assert.rejects(sessions.change('default', 'none', {}), { code: 'NOT_FOUND' });
    const preferences = { much: 'x'.repeat(5000) };
    await assert.rejects(sessions.change('default', 's', { preferences }), { code: 'INVALID_PARAMS' });
  });

  onStores('is forked: both go on from there, each by itself', STORES, async (t, data) => {
    const brain = await begin(t, data, counter());
    await say(brain, 's', 'one');
    const fork = await brain.sessions.fork('default', 's', 'f');
    assert.deepEqual([fork.session_id, fork.messages], ['f', 2]);
    await say(brain, 'f', 'two');
    assert.equal((await textsOf(brain, 's')).length, 2);
    await brain.sessions.remove('default', 's', 'me');
    assert.deepEqual(await textsOf(brain, 's'), []);
    assert.equal(await say(brain, 'f', 'three'), '6 heard');
    assert.equal(await say(brain, 's', 'one'), '2 heard');
  });

  onStores('that is deleted gets no message of a run that was under way', STORES, async (t, data) => {
    const asked = Promise.withResolvers<void>();
    const said = Promise.withResolvers<{ text: string }>();
    const model = new ScriptedModel(() => {
      asked.resolve();
      return said.promise;
    });
    const brain = await begin(t, data, model);
    const payload = { agent: 'helper', input: 'slow' };
    const { job_id } = await brain.submit({ type: 'agent', session_id: 's', payload });
    await within(asked.promise);
    await brain.sessions.remove('default', 's', 'me');
    said.resolve({ text: 'late' });
    assert.equal((await within(brain.wait(job_id))).state, 'cancelled');
    assert.deepEqual(await textsOf(brain, 's'), []);
  });
});
