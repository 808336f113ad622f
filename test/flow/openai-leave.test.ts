/** A client that disconnects cancels its job at once; one that asked with a key can come back to the same answer. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import OpenAI from 'openai';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { within } from './flow-kit.ts';
import { CHAT, Held, post, saysWords, type Talk, talk, until, WORDS } from './openai-kit.ts';

/** Everything that was taken has ended as cancelled, nothing runs, nobody follows. */
async function nothingIsLeft({ brain }: Talk, jobs: number): Promise<void> {
  const { following } = brain.orchestrator;
  const engine = engineOf(brain.orchestrator);
  await within(
    until(() => {
      const { backends } = engine.queue.fleet;
      return [...backends.values()].every(({ used }) => used === 0) && following.followers === 0;
    }),
  );
  const { jobs: listed } = await brain.orchestrator.list({});
  assert.deepEqual(
    listed.map(({ state }) => state),
    Array.from({ length: jobs }, () => 'cancelled'),
  );
}

/** Sends a request and closes the connection without waiting for anything. */
async function askAndLeave({ brain }: Talk, stream: boolean): Promise<void> {
  const body = JSON.stringify({ ...CHAT, stream });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  const socket = connect(brain.port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(head + body, () => socket.destroy());
  await once(socket, 'close');
}

for (const stream of [true, false]) {
  const how = stream ? 'of a stream' : 'of a whole answer';

  test(`a caller ${how} that leaves before the first word ends the job`, async (t) => {
    const held = new Held();
    const all = await talk(t, held.model);
    const abort = new AbortController();
    const asking = all.client.chat.completions
      .create({ ...CHAT, stream }, { signal: abort.signal })
      .then(async (answer) => {
        if (Symbol.asyncIterator in answer) for await (const _ of answer) assert.fail('it has said nothing');
      })
      .catch((error: unknown) => assert.ok(error instanceof OpenAI.APIUserAbortError));
    await within(until(() => held.started.length === 1));
    abort.abort();
    await within(until(() => held.aborted.length === 1));
    await asking;
    await nothingIsLeft(all, 1);
  });

  test(`a caller ${how} that leaves while the job waits ends the job, which never starts`, async (t) => {
    const held = new Held();
    const all = await talk(t, held.model, { slots: 1 });
    const url = `${all.brain.url}/v1/chat/completions`;
    const first = new AbortController();
    const second = new AbortController();
    post(url, { ...CHAT, stream }, {}, first.signal).catch(() => undefined);
    await within(until(() => held.started.length === 1));
    post(url, { ...CHAT, stream }, {}, second.signal).catch(() => undefined);
    const { state } = engineOf(all.brain.orchestrator);
    await within(until(() => state.jobs.size === 2 && all.brain.orchestrator.following.followers === 2));
    second.abort();
    await within(until(() => [...state.jobs.values()].some(({ job }) => job.state === 'cancelled')));
    assert.equal(held.aborted.length, 0, 'the other one is not touched');
    first.abort();
    await nothingIsLeft(all, 2);
    assert.equal(held.started.length, 1);
  });

  test(`a caller ${how} that leaves before it is told that the job was taken ends the job`, async (t) => {
    const held = new Held();
    const all = await talk(t, held.model);
    for (let at = 0; at < 20; at++) await askAndLeave(all, stream);
    const { orchestrator } = all.brain;
    const areOver = async (): Promise<boolean> => {
      const { jobs } = await orchestrator.list({});
      return jobs.length === 20 && jobs.every(({ state }) => state === 'cancelled');
    };
    await within(until(areOver));
    await nothingIsLeft(all, 20);
  });
}

test('a caller that leaves in the middle of a stream ends the job', async (t) => {
  const held = new Held('first ');
  const all = await talk(t, held.model);
  const stream = await all.client.chat.completions.create({ ...CHAT, stream: true });
  for await (const { choices } of stream) if (choices[0]?.delta.content === 'first ') break;
  await within(until(() => held.aborted.length === 1));
  await nothingIsLeft(all, 1);
});

test('the end of the brain is no leaving: the caller is told, and the job is not cancelled', async (t) => {
  const held = new Held('first ');
  const all = await talk(t, held.model);
  const { brain, client } = all;
  const stream = await client.chat.completions.create({ ...CHAT, stream: true });
  const streamed = assert.rejects(
    async () => {
      for await (const _ of stream);
    },
    { code: 'SHUTTING_DOWN' },
  );
  const asked = assert.rejects(client.chat.completions.create(CHAT), { status: 503, code: 'SHUTTING_DOWN' });
  await within(until(() => held.started.length === 2 && brain.orchestrator.following.followers === 2));
  const { state } = engineOf(brain.orchestrator);
  brain.orchestrator.following.closeAll();
  await within(Promise.all([streamed, asked]));
  // Whoever was on the way in is cut off by the server.
  await askAndLeave(all, true);
  await askAndLeave(all, false);
  await within(until(() => held.started.length === 4));
  // Answered after the server has seen the connections end.
  assert.equal((await fetch(`${brain.url}/v1/models`)).status, 200);
  await brain.orchestrator.list({});
  assert.deepEqual(
    [...state.jobs.values()].map(({ job }) => job.cancel),
    [undefined, undefined, undefined, undefined],
  );
  held.letGo();
});

test('the same key and request give the same answer, streamed or not, without a second run', async (t) => {
  const { client, given, brain } = await talk(t, saysWords);
  const options = { headers: { 'Idempotency-Key': 'order 66' } };
  const first = await client.chat.completions.create(CHAT, options);
  const again = await client.chat.completions.create(CHAT, options);
  assert.deepEqual(again, { ...first, created: again.created });
  let text = '';
  for await (const { choices } of await client.chat.completions.create({ ...CHAT, stream: true }, options)) {
    text += choices[0]?.delta.content ?? '';
  }
  assert.equal(text, WORDS.join(''));
  assert.equal(given.length, 1);
  const other = { ...CHAT, temperature: 1 };
  await assert.rejects(client.chat.completions.create(other, options), (error) => {
    assert.ok(error instanceof OpenAI.ConflictError);
    assert.deepEqual([error.code, error.param], ['JOB_CONFLICT', 'Idempotency-Key']);
    return true;
  });
  const bad = await post(`${brain.url}/v1/chat/completions`, CHAT, { 'idempotency-key': 'x'.repeat(256) });
  assert.equal(bad.status, 400);
});

test('with a key a caller may leave and come back: the job goes on', async (t) => {
  const held = new Held('first ');
  const { client, job } = await talk(t, held.model);
  const options = { headers: { 'Idempotency-Key': 'k' } };
  const stream = await client.chat.completions.create({ ...CHAT, stream: true }, options);
  for await (const { choices } of stream) if (choices[0]?.delta.content === 'first ') break;
  const asking = client.chat.completions.create(CHAT, options);
  held.letGo();
  assert.equal((await within(asking)).choices[0]?.message.content, 'first end');
  assert.deepEqual([held.started.length, held.aborted.length], [1, 0]);
  assert.equal((await job(held.started[0]!)).state, 'succeeded');
});

test('while a job waits its stream says where it stands, from its head on', async (t) => {
  const held = new Held();
  const { brain } = await talk(t, held.model, { slots: 1 });
  const url = `${brain.url}/v1/chat/completions`;
  const waiting: Response[] = [];
  for (let at = 0; at < 3; at++) waiting.push(await post(url, { ...CHAT, stream: true }));
  assert.deepEqual(
    waiting.map(({ headers }) => headers.get('x-orchd-queue-position')),
    ['0', '0', '1'],
  );
  assert.equal(waiting[0]?.headers.get('x-orchd-predicted-start-ms'), '0');
  const texts = waiting.map((response) => response.text());
  held.letGo();
  const [first, , last] = await within(Promise.all(texts));
  assert.doesNotMatch(first!, /: queued/);
  assert.match(last!, /^: queued position=1\n\n/);
  assert.match(last!, /"content":"end"/);
  assert.ok(last!.endsWith('data: [DONE]\n\n'));
});

test('a place that changes is told again', async (t) => {
  const ends: (() => void)[] = [];
  const model = (): Promise<ExecutionResult> =>
    new Promise((resolve) => ends.push(() => resolve({ text: 'x', finish_reason: 'stop' })));
  const { brain } = await talk(t, model, { slots: 1 });
  const url = `${brain.url}/v1/chat/completions`;
  const streams: Response[] = [];
  for (let at = 0; at < 3; at++) streams.push(await post(url, { ...CHAT, stream: true }));
  const endNext = async (): Promise<void> => {
    await within(until(() => ends.length === 1));
    ends.shift()!();
  };
  await endNext();
  let heard = '';
  const reading = (async () => {
    for await (const piece of streams[2]!.body!) heard += Buffer.from(piece).toString();
  })();
  await within(until(() => heard.includes('position=0')));
  await endNext();
  await endNext();
  await within(reading);
  assert.match(heard, /^: queued position=1\n\n: queued position=0 predicted_start_ms=\d+\n\ndata: /);
});

test('a caller that waits for a long answer is not taken for an idle connection', async (t) => {
  const held = new Held();
  const { brain, client } = await talk(t, held.model, { limits: { idleMs: 200 } });
  const asking = client.chat.completions.create(CHAT);
  await within(until(() => held.started.length === 1));
  // A connection that came later and sends nothing is closed as idle.
  const idle = connect(brain.port, '127.0.0.1').resume();
  await within(once(idle, 'close'));
  held.letGo();
  assert.equal((await within(asking)).choices[0]?.message.content, 'end');
});
