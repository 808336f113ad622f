/** Sessions as a whole, over HTTP: conversations that are made, used, changed, listed, archived and read again. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { realEnv } from '../../src/kit/env/real.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed, start } from './flow-kit.ts';
import { ARCHIVING, LASTING_SESSIONS } from './session-archive-kit.ts';
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

interface Said {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

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
    const { messages } = await first.call<Said>('GET', '/v2/sessions/s/messages');
    const time = messages[2]?.content ?? '';
    assert.match(time, /\d\d:\d\d/);
    const call = { id: 'c1', type: 'function', function: { name: 'current_time', arguments: '{}' } };
    assert.deepEqual(messages, [
      { role: 'user', content: 'What time is it?' },
      { role: 'assistant', content: '', tool_calls: [call] },
      { role: 'tool', content: time, tool_call_id: 'c1' },
      { role: 'assistant', content: '4 heard' },
    ]);
    const got = await first.call<Session>('GET', '/v2/sessions/s');
    assert.deepEqual(
      [got.session_id, got.messages, got.metadata, got.archived],
      ['s', 4, METADATA, undefined],
    );
    const changed = await first.call<Session>('PUT', '/v2/sessions/s/metadata', { mode: 'loud' });
    assert.deepEqual([changed.messages, changed.metadata], [4, { mode: 'loud' }]);
    const again = await first.call<Session>('PUT', '/v2/sessions/s/metadata', METADATA);
    assert.deepEqual([again.metadata, again.created_at], [METADATA, made.created_at]);
    await first.call('POST', '/v2/sessions', { session_id: 'other' });
    const listed = await first.call<{ sessions: Session[] }>('GET', '/v2/sessions');
    const summaries = listed.sessions.map(({ session_id: id, messages: said }) => `${id} ${said}`);
    assert.deepEqual(summaries.sort(), ['other 0', 's 4']);
    await first.brain.stop();

    const second = await site(t, data, '');
    const restarted = await second.call<{ sessions: Session[] }>('GET', '/v2/sessions');
    assert.deepEqual(restarted.sessions.map(({ session_id: id }) => id).sort(), ['other', 's']);
    assert.deepEqual((await second.call<Session>('GET', '/v2/sessions/s')).metadata, METADATA);
    assert.deepEqual((await second.call<Said>('GET', '/v2/sessions/s/messages')).messages, messages);
    assert.equal(await second.say('s', 'And now?'), '6 heard');
    await second.brain.stop();

    const third = await site(t, data, ARCHIVING);
    const archived = await eventually('the session is archived', async () => {
      const session = await third.call<Session>('GET', '/v2/sessions/s');
      return session.archived === true && session;
    });
    assert.deepEqual(
      [archived.messages, archived.metadata, archived.created_at],
      [6, METADATA, made.created_at],
    );
    const kept = await third.call<Said>('GET', '/v2/sessions/s/messages');
    assert.deepEqual(kept.messages, [
      ...messages,
      { role: 'user', content: 'And now?' },
      { role: 'assistant', content: '6 heard' },
    ]);
    const active = await third.call<{ sessions: Session[] }>('GET', '/v2/sessions');
    assert.ok(!active.sessions.some(({ session_id: id }) => id === 's'));
    assert.equal(await third.say('s', 'Back again'), '8 heard', 'the archived session is used again');
  },
);

const HOUR_MS = 3_600_000;

onStores(
  '[ADR-2] a session that nobody has used for 24 hours is archived, and none before; every use counts',
  LASTING,
  async (t, data) => {
    const real = realEnv();
    let passedMs = 0;
    const { now, monotonic } = real.clock;
    const clock = { now: () => now() + passedMs, monotonic: () => monotonic() + passedMs };
    const config = `${AGENTS}${LASTING_SESSIONS}`;
    const options = { data, config, backends: [model().backend()], env: { ...real, clock } };
    const brain = await start(t, options);
    const { sessions, reads } = brain;
    const get = async (id: string) => reads.sessions.get('default', id);
    const isArchived = async (id: string): Promise<boolean> => (await get(id)).archived === true;
    /** The brain looks for idle sessions by itself; what it has not archived yet it would archive now. */
    const assertInUse = async (...ids: string[]): Promise<void> => {
      await sessions.archive.sweep(reads.now);
      for (const id of ids) assert.equal(await isArchived(id), false, `${id}: not before its time`);
    };
    const untilArchived = (id: string) => eventually(`${id} is archived`, () => isArchived(id));
    const { created_at: begun } = await sessions.create('default', 'changed', { metadata: METADATA });
    for (const id of ['talked', 'worked', 'idle']) await sessions.create('default', id, {});
    passedMs = 12 * HOUR_MS;
    await sessions.change('default', 'changed', METADATA);
    const payload = { agent: 'helper', input: 'What time is it?' };
    await brain.submit({ job_id: 'run', type: 'agent', session_id: 'talked', payload });
    const job = { messages: [{ role: 'user', content: 'Hello' }] };
    await brain.submit({
      job_id: 'job',
      type: 'inference',
      model: 'scripted',
      session_id: 'worked',
      payload: job,
    });
    for (const id of ['run', 'job']) await brain.wait(id);
    const used = ['changed', 'talked', 'worked'];
    for (const id of used) {
      const { created_at, used_at } = await get(id);
      assert.ok(created_at - begun < HOUR_MS && used_at - begun >= 12 * HOUR_MS, `${id}: its times`);
    }
    passedMs = 24 * HOUR_MS - 60_000;
    await assertInUse('idle', ...used);
    passedMs = 24 * HOUR_MS + 60_000;
    await untilArchived('idle');
    passedMs = 36 * HOUR_MS - 60_000;
    await assertInUse(...used);
    passedMs = 37 * HOUR_MS;
    for (const id of used) await untilArchived(id);
    const { messages, used_at } = await get('talked');
    assert.deepEqual([messages, used_at - begun < 13 * HOUR_MS], [4, true], 'a read is no use');
    assert.deepEqual((await get('changed')).metadata, METADATA);
  },
);
