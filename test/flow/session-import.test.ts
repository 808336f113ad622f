/** Exports of sessions, and sessions that are made of them, with the command line and two servers. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { orchd } from './cli-process.ts';
import { within } from './flow-kit.ts';
import { folderFor } from './gateway-kit.ts';

const CONFIG = 'agents: [{name: helper, model: scripted, tools: [current_time]}]';
const METADATA = { channel: 'web', preferences: { language: 'de' } };

/** Calls a tool first, then says how many messages it has heard. */
const counter = (): ScriptedModel =>
  new ScriptedModel((turn, { messages }) =>
    turn === 0 ? { calls: [['c1', 'current_time', {}]] } : { text: `${messages.length} heard` },
  );

interface Server {
  readonly brain: HttpBrain;
  readonly model: ScriptedModel;
  cli(...words: string[]): ReturnType<typeof orchd>;
}

async function server(t: TestContext): Promise<Server> {
  const model = counter();
  const brain = await httpBrain({ config: CONFIG, backends: [model.backend()] });
  t.after(() => brain.stop());
  return { brain, model, cli: (...words) => orchd(words, { env: { ORCHD_URL: brain.url } }) };
}

async function say({ brain: { orchestrator } }: Server, session: string, input: string): Promise<string> {
  const payload = { agent: 'helper', input };
  const { job_id } = await orchestrator.submit({ type: 'agent', session_id: session, payload });
  return ((await within(orchestrator.wait(job_id))).result as { reply: string }).reply;
}

test('an export with calls of tools is imported elsewhere, and the conversation goes on there', async (t) => {
  const [here, there] = [await server(t), await server(t)];
  await here.brain.orchestrator.sessions.create('default', 'talk', { metadata: METADATA });
  assert.equal(await say(here, 'talk', 'What time is it?'), '4 heard');
  const { out: exported } = await here.cli('sessions', 'export', 'talk');
  const file = join(folderFor(t), 'session.json');
  writeFileSync(file, exported);

  const { code, out } = await there.cli('sessions', 'import', file);
  assert.deepEqual([code, out], [0, 'talk\n']);
  const made = JSON.parse((await there.cli('sessions', 'export', 'talk')).out);
  const { session, messages } = JSON.parse(exported);
  assert.deepEqual([made.messages, made.session.metadata], [messages, METADATA]);
  assert.deepEqual(
    [made.session.tokens_used, made.session.turns],
    [0, 0],
    'its use is not that of the other',
  );
  assert.ok(session.turns > 0);
  assert.equal(await say(there, 'talk', 'And now?'), await say(here, 'talk', 'And now?'));
  assert.deepEqual(there.model.heard.at(-1), here.model.heard.at(-1));

  const taken = await there.cli('sessions', 'import', file);
  assert.deepEqual([taken.code, /SESSION_CONFLICT/.test(taken.err)], [1, true], taken.err);
  const other = await there.cli('sessions', 'import', file, '--as', 'other', '--json');
  assert.deepEqual([other.code, JSON.parse(other.out).session_id], [0, 'other']);
});

test('what is no export, or cannot be a conversation, is refused with the reason', async (t) => {
  const made = await server(t);
  const file = join(folderFor(t), 'session.json');
  const importing = async (content: string) => {
    writeFileSync(file, content);
    return made.cli('sessions', 'import', file);
  };
  for (const [content, reason] of [
    ['no JSON', /is not JSON/],
    ['{"messages": []}', /is no export of a session/],
    ['null', /is no export of a session/],
  ] as const) {
    const { code, err } = await importing(content);
    assert.equal(code, 2, content);
    assert.match(err, reason);
  }
  const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } };
  const messages = [{ role: 'assistant', content: '', tool_calls: [call] }];
  const cut = await importing(JSON.stringify({ session: { session_id: 's', metadata: {} }, messages }));
  assert.equal(cut.code, 2);
  assert.match(cut.err, /the call "c1" has no answer/);
  const missing = await made.cli('sessions', 'import', join(file, 'missing'));
  assert.equal(missing.code, 2);
  assert.match(missing.err, /cannot be read/);
  assert.deepEqual((await made.brain.orchestrator.reads.sessions.list({ tenant: 'default' })).sessions, []);
});
