/** A revoked token ends what its caller is still being sent; the jobs go on. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { makeToken, type TokenEntry } from '../../src/wire/tokens.ts';
import { SeededRandom } from '../fakes/world.ts';
import { HELLO, Held, talk, until } from './openai-kit.ts';

const random = new SeededRandom(3);
const REVOKED = /UNAUTHORIZED.*the token was revoked.*token_revoked/s;

/** A model that waits, and two callers: the token of `gone` can be revoked. */
async function stage(t: TestContext) {
  const held = new Held('first');
  const [gone, stays] = ['gone', 'stays'].map((name) => makeToken(random, 0, name, 'submit'));
  const tokens: TokenEntry[] = [gone!.entry, stays!.entry];
  const { brain } = await talk(t, held.model, { tokens, disconnectGraceMs: 0 });
  const open = (token: string, path: string, body?: object): Promise<Response> =>
    fetch(brain.url + path, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
  const revoke = (): void => {
    tokens.shift();
    brain.endRevoked();
  };
  const submit = async (job_id: string): Promise<void> => {
    const job = { job_id, priority: 'interactive', model: 'tiny', prompt: 'x' };
    assert.equal((await open(gone!.token, '/v2/tasks', job)).status, 202);
    await until(() => held.started.includes(job_id));
  };
  /** The job was not cancelled: it ends well when its model is let go. */
  const goesOn = async (jobId: string): Promise<void> => {
    held.letGo();
    assert.equal((await brain.orchestrator.wait(jobId)).state, 'succeeded');
  };
  return { brain, held, open, revoke, submit, goesOn, gone: gone!.token, stays: stays!.token };
}

/** The text of a response until `pattern` is in it. */
async function readUntil(reader: ReadableStreamDefaultReader<Uint8Array>, pattern: RegExp): Promise<string> {
  const decoder = new TextDecoder();
  for (let text = ''; ; ) {
    if (pattern.test(text)) return text;
    const { value, done } = await reader.read();
    assert.ok(!done, `it ended before ${pattern}: ${text}`);
    text += decoder.decode(value, { stream: true });
  }
}

test('a followed job: an error event ends the stream, others stay open, and the job goes on', async (t) => {
  const { open, revoke, submit, goesOn, gone, stays } = await stage(t);
  await submit('job');
  const [mine, other] = await Promise.all([gone, stays].map((token) => open(token, '/v2/tasks/job/events')));
  const [reader, otherReader] = [mine!.body!.getReader(), other!.body!.getReader()];
  await Promise.all([reader, otherReader].map((each) => readUntil(each, /first/)));
  revoke();
  assert.match(await readUntil(reader, /token_revoked/), /^event: error\ndata: /m);
  assert.equal((await reader.read()).done, true);
  assert.equal((await open(gone, '/v2/tasks/job')).status, 401);
  await goesOn('job');
  assert.match(await readUntil(otherReader, /event: end/), /firstend/);
});

test('an interactive job with no other follower goes on: a revocation is no disconnect', async (t) => {
  const { open, revoke, submit, goesOn, gone, stays, brain } = await stage(t);
  await submit('alone');
  const reader = (await open(gone, '/v2/tasks/alone/events')).body!.getReader();
  await readUntil(reader, /first/);
  revoke();
  await readUntil(reader, REVOKED);
  await until(() => brain.orchestrator.following.followers === 0);
  // The grace period of a disconnect is 0 here: a cancel would come before the answer to a later request.
  for (const _ of 'ab') assert.equal((await open(stays, '/v2/tasks/alone')).status, 200);
  await goesOn('alone');
});

test('a streamed answer in the format of OpenAI ends with an error and without [DONE]', async (t) => {
  const { open, revoke, goesOn, gone } = await stage(t);
  const chat = { model: 'tiny', messages: HELLO, stream: true };
  const response = await open(gone, '/v1/chat/completions', chat);
  const jobId = response.headers.get('x-orchd-job-id')!;
  const reader = response.body!.getReader();
  await readUntil(reader, /first/);
  revoke();
  const text = await readUntil(reader, REVOKED);
  assert.match(text, /data: \{"error":/);
  assert.equal((await reader.read()).done, true);
  assert.ok(!text.includes('[DONE]'));
  await goesOn(jobId);
});

test('an answer that is not streamed becomes 401 at once', async (t) => {
  const { open, revoke, goesOn, gone, held } = await stage(t);
  const asked = open(gone, '/v1/chat/completions', { model: 'tiny', messages: HELLO });
  await until(() => held.started.length > 0);
  revoke();
  const response = await asked;
  assert.equal(response.status, 401);
  assert.match(await response.text(), REVOKED);
  await goesOn(held.started[0]!);
});

test('a token whose role or tenant was changed in the file is a revoked one', async (t) => {
  const token = makeToken(random, 0, 'changed', 'submit');
  for (const change of [{ role: 'read' }, { tenant: 'lab' }] as const) {
    const held = new Held('first');
    const tokens: TokenEntry[] = [token.entry];
    const { brain } = await talk(t, held.model, { tokens });
    const client = new OrchdClient({ url: brain.url, token: token.token });
    await client.submit({ job_id: 'job', model: 'tiny', prompt: 'x' });
    await until(() => held.started.length > 0);
    const events = client.events('job');
    await events.next();
    tokens[0] = { ...token.entry, ...change };
    brain.endRevoked();
    const rest = async (): Promise<void> => {
      for await (const { event } of events) assert.notEqual(event, 'error', 'the job has not failed');
    };
    await assert.rejects(rest(), { name: 'ClientError', code: 'UNAUTHORIZED', status: 401 });
    held.letGo();
  }
});
