/** Limits that /v1 shares with /v2: the number of streams, headers, and origins of pages. */

import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import OpenAI from 'openai';
import { OrchdError } from '../../src/model/errors.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { SeededRandom } from '../fakes/world.ts';
import { within } from './flow-kit.ts';
import { CHAT, clientOf, Held, post, saysWords, talk, until } from './openai-kit.ts';

const STREAM = { ...CHAT, stream: true as const };

/** Asks again until somebody else's stream has been counted as over. */
async function opens(url: string): Promise<Response> {
  for (;;) {
    const response = await post(`${url}/v1/chat/completions`, STREAM);
    if (response.status !== 429) return response;
    await response.arrayBuffer();
  }
}

test('streams of a caller are counted together, wherever they are asked for', async (t) => {
  const random = new SeededRandom(1);
  const [ada, bob] = ['ada', 'bob'].map((name) => makeToken(random, 0, name, 'submit'));
  const held = new Held('first ');
  const { brain } = await talk(t, held.model, {
    maxStreamsPerCaller: 2,
    tokens: [ada!.entry, bob!.entry],
  });
  const client = clientOf(brain.url, ada!.token);
  const first = await client.chat.completions.create(STREAM);
  await within(until(() => held.started.length === 1));
  const [id] = held.started;
  const bearer = { authorization: `Bearer ${ada!.token}` };
  const events = (): Promise<Response> => fetch(`${brain.url}/v2/tasks/${id}/events`, { headers: bearer });
  const second = await events();
  assert.equal(second.status, 200);
  const third = await events();
  assert.equal(third.status, 429);
  const jobs = engineOf(brain.orchestrator).state.jobs.size;
  for (const path of ['chat/completions', 'completions']) {
    const body = path === 'completions' ? { model: 'tiny', prompt: 'x', stream: true } : STREAM;
    const refused = await post(`${brain.url}/v1/${path}`, body, bearer);
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get('retry-after'), '1');
    const { error, policy_label } = (await refused.json()) as {
      error: { code: string };
      policy_label: string;
    };
    assert.deepEqual([error.code, policy_label], ['TOO_MANY_STREAMS', 'streams']);
  }
  assert.equal(engineOf(brain.orchestrator).state.jobs.size, jobs, 'no job was begun that nobody may hear');
  const theirs = await clientOf(brain.url, bob!.token).chat.completions.create(STREAM);
  const whole = client.chat.completions.create(CHAT);
  held.letGo();
  for (const stream of [first, theirs]) for await (const _ of stream);
  assert.match(await second.text(), /event: end/);
  assert.equal((await whole).choices[0]?.message.content, 'first end', 'an answer in one piece is no stream');
  const again = await client.chat.completions.create(STREAM);
  for await (const _ of again);
});

test('a refused request, and a caller who leaves at any moment, count for nothing', async (t) => {
  const { brain, client } = await talk(t, saysWords, { maxStreamsPerCaller: 1 });
  const wrong = client.chat.completions.create({ ...STREAM, model: 'none' });
  await assert.rejects(wrong, OpenAI.NotFoundError);
  const { job_id: id } = await brain.orchestrator.submit({ model: 'tiny', prompt: 'x' });
  const body = JSON.stringify(STREAM);
  const head = `host: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
  const asked = [
    `POST /v1/chat/completions HTTP/1.1\r\n${head}\r\n\r\n${body}`,
    `GET /v2/tasks/${id}/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`,
  ];
  for (const text of asked) {
    for (let at = 0; at < 20; at++) {
      const socket = connect(brain.port, '127.0.0.1').on('error', () => undefined);
      await new Promise((resolve) => socket.write(text, resolve));
      for (let turn = 0; turn < at % 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      socket.resetAndDestroy();
    }
    const response = await within(opens(brain.url));
    assert.equal(response.status, 200);
    assert.match(await response.text(), /\[DONE\]/);
  }
});

test('an error of a job that was taken says which job, and where it stood', async (t) => {
  const { brain } = await talk(t, ({ input }) => {
    if (input !== undefined) return 'no embeddings';
    throw new OrchdError('CONTEXT_TOO_LONG');
  });
  const asked = [
    ['chat/completions', CHAT, 'CONTEXT_TOO_LONG'],
    ['completions', { model: 'tiny', prompt: 'x' }, 'CONTEXT_TOO_LONG'],
    ['embeddings', { model: 'tiny', input: 'x' }, 'UNSUPPORTED'],
  ] as const;
  for (const [path, body, code] of asked) {
    const response = await post(`${brain.url}/v1/${path}`, body);
    const { error } = (await response.json()) as { error: { code: string; correlation_id: string } };
    assert.deepEqual([response.status, error.code], [422, code]);
    const id = response.headers.get('x-orchd-job-id') as string;
    assert.equal((await brain.orchestrator.get(id)).job_id, id);
    assert.equal(response.headers.get('x-orchd-queue-position'), '0');
    assert.equal(response.headers.get('x-correlation-id'), error.correlation_id);
  }
  const refused = await post(`${brain.url}/v1/completions`, { model: 'none', prompt: 'x' });
  assert.equal(refused.headers.get('x-orchd-job-id'), null, 'there is no job');
});

test("a page of an allowed origin may send what OpenAI's client sends, and no other page", async (t) => {
  const [page, foreign] = ['https://page.example', 'https://foreign.example'];
  const { brain } = await talk(t, saysWords, { origins: [page] });
  // Headers that the client really sends, as a browser would announce them in its preflight request.
  const sent: string[] = [];
  const client = new OpenAI({
    baseURL: `${brain.url}/v1`,
    apiKey: 'any',
    organization: 'o',
    project: 'p',
    fetch: (url, init) => {
      sent.push(...new Headers(init?.headers).keys());
      return fetch(url, init);
    },
  });
  for await (const _ of await client.chat.completions.create(STREAM));
  assert.ok(sent.some((name) => name.startsWith('x-stainless-')));
  const ask = (origin: string, names: string): Promise<Response> =>
    fetch(`${brain.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': names,
      },
    });
  const allowed = await ask(page, [...sent, 'x-other', 'X-Stainless-New'].join(','));
  assert.equal(allowed.status, 204);
  const names = allowed.headers.get('access-control-allow-headers')?.split(', ') ?? [];
  for (const name of sent.filter((each) => each !== 'accept')) assert.ok(names.includes(name), name);
  assert.ok(names.includes('x-stainless-new'));
  assert.ok(!names.includes('x-other'));
  const other = await ask(foreign, sent.join(','));
  assert.equal(other.status, 403);
  assert.equal(other.headers.get('access-control-allow-headers'), null);
});
