/** Sessions as a whole, over HTTP: conversations that are made, used, changed, listed, archived and read again. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../src/config/load.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed } from './flow-kit.ts';
import { ARCHIVING } from './session-archive-kit.ts';
import { eventually } from './site-client.ts';

const AGENTS = `
agents:
  - {name: helper, model: scripted, instructions: Help., tools: [current_time]}
`;

/** Asks for the time first, then says how many messages it has heard. */
const model = (): ScriptedModel =>
  new ScriptedModel((_, { messages }) =>
    messages.at(-1)?.role === 'user' && messages.length === 2
      ? { calls: [['c1', 'current_time', {}]] }
      : { text: `${messages.length} heard` },
  );

interface Session {
  readonly session_id: string;
  readonly messages: number;
  readonly metadata: object;
  readonly created_at: number;
  readonly used_at: number;
  readonly archived?: boolean;
}

/** A brain on this store, and calls of its API that must succeed. */
async function site(t: TestContext, data: string, config: string) {
  const brain: HttpBrain = await httpBrain({
    ...placed({ data, config: `${AGENTS}${config}` }),
    backends: [model().backend()],
  });
  t.after(() => brain.stop());
  const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`${brain.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
    return (response.status === 204 ? undefined : await response.json()) as T;
  };
  const say = async (session: string, input: string): Promise<string> => {
    const { run_id } = await call<{ run_id: string }>('POST', '/v2/agents/helper/runs', {
      input,
      session_id: session,
    });
    return eventually(`${run_id} has answered`, async () => {
      const { reply } = await call<{ reply?: string }>('GET', `/v2/runs/${run_id}`);
      return reply;
    });
  };
  return { brain, call, say };
}

const METADATA = { mode: 'quiet', channel: 'cli', preferences: { language: 'de' } };

onStores(
  '[ADR-2] a session has an id, messages, metadata and times; is created, read, changed and listed; survives a restart; is archived when it is idle, and read then',
  LASTING,
  async (t, data) => {
    const first = await site(t, data, '');
    const before = Date.now();
    const made = await first.call<Session>('POST', '/v2/sessions', { session_id: 's', metadata: METADATA });
    assert.deepEqual([made.session_id, made.messages, made.metadata], ['s', 0, METADATA]);
    assert.ok(made.created_at >= before - 60_000 && made.used_at >= made.created_at);
    assert.equal(await first.say('s', 'What time is it?'), '4 heard');
    const { messages } = await first.call<{ messages: { role: string; content: string }[] }>(
      'GET',
      '/v2/sessions/s/messages',
    );
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'assistant'],
    );
    assert.deepEqual([messages[0]?.content, messages[3]?.content], ['What time is it?', '4 heard']);
    const changed = await first.call<Session>('PUT', '/v2/sessions/s/metadata', { mode: 'loud' });
    assert.deepEqual([changed.messages, changed.metadata], [4, { mode: 'loud' }]);
    await first.call('POST', '/v2/sessions', { session_id: 'other' });
    const listed = await first.call<{ sessions: Session[] }>('GET', '/v2/sessions');
    assert.deepEqual(listed.sessions.map(({ session_id: id }) => id).sort(), ['other', 's']);
    assert.ok(changed.used_at >= made.used_at && changed.created_at === made.created_at);
    await first.brain.stop();

    const second = await site(t, data, ARCHIVING);
    assert.equal(await second.say('s', 'And now?'), '6 heard');
    const archived = await eventually('the session is archived', async () => {
      const session = await second.call<Session>('GET', '/v2/sessions/s');
      return session.archived === true && session;
    });
    assert.deepEqual(
      [archived.messages, archived.metadata, archived.created_at],
      [6, { mode: 'loud' }, made.created_at],
    );
    const kept = await second.call<{ messages: { content: string }[] }>('GET', '/v2/sessions/s/messages');
    assert.deepEqual(
      [0, 4, 5].map((at) => kept.messages[at]?.content),
      ['What time is it?', 'And now?', '6 heard'],
    );
    const active = await second.call<{ sessions: Session[] }>('GET', '/v2/sessions');
    assert.ok(!active.sessions.some(({ session_id: id }) => id === 's'));
    assert.equal(await second.say('s', 'Back again'), '8 heard', 'the archived session is used again');
  },
);

test('[ADR-2] a session is archived after 24 hours of inactivity', () => {
  assert.equal(loadConfig({}).sessions.archiveAfterMs, 24 * 3_600_000);
});
