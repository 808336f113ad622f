/** Failures reach the official client as the errors that it knows, with our codes. */

import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import OpenAI from 'openai';
import { OrchdError } from '../../src/model/errors.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { SeededRandom } from '../fakes/world.ts';
import { within } from './flow-kit.ts';
import { CHAT, clientOf, HELLO, Held, post, saysWords, talk, until } from './openai-kit.ts';

interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
    readonly correlation_id: string;
  };
}

/** Fails unless a call is refused with that class, code and type. */
async function refuses(
  asking: PromiseLike<unknown>,
  kind: new (...words: never[]) => Error,
  code: string,
  type: string,
): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await Promise.resolve(asking).then(
    () => assert.fail('it was answered'),
    (thrown: unknown) => thrown as InstanceType<typeof OpenAI.APIError>,
  );
  assert.ok(error instanceof kind, `${error}`);
  assert.deepEqual([error.code, error.type], [code, type]);
  return error;
}

test('an unknown model is not found, at once, wherever it is named', async (t) => {
  const { client, given, brain } = await talk(t, saysWords);
  const model = 'nobody has it';
  const asked = [
    () => client.chat.completions.create({ ...CHAT, model }),
    () => client.chat.completions.create({ ...CHAT, model, stream: true }),
    () => client.completions.create({ model, prompt: 'x' }),
    () => client.embeddings.create({ model, input: 'x' }),
    () => client.models.retrieve(model),
  ];
  for (const each of asked) {
    const error = await refuses(each(), OpenAI.NotFoundError, 'MODEL_NOT_FOUND', 'not_found_error');
    assert.equal(error.param, 'model');
  }
  assert.equal(given.length, 0);
  assert.equal(engineOf(brain.orchestrator).state.jobs.size, 0);
});

test('tokens and their roles are asked for', async (t) => {
  const random = new SeededRandom(1);
  const reader = makeToken(random, 0, 'reader', 'read');
  const writer = makeToken(random, 0, 'writer', 'submit');
  const { brain, client } = await talk(t, saysWords, { tokens: [reader.entry, writer.entry] });
  await refuses(client.models.list(), OpenAI.AuthenticationError, 'UNAUTHORIZED', 'authentication_error');
  const reading = clientOf(brain.url, reader.token);
  assert.equal((await reading.models.retrieve('tiny')).id, 'tiny');
  const chat = reading.chat.completions.create(CHAT);
  await refuses(chat, OpenAI.PermissionDeniedError, 'FORBIDDEN', 'permission_error');
  const { response } = await clientOf(brain.url, writer.token).chat.completions.create(CHAT).withResponse();
  const id = response.headers.get('x-orchd-job-id')!;
  assert.equal((await brain.orchestrator.get(id)).agent, 'writer');
});

test('where there are no tokens a key of another service is none, and a token of ours is refused', async (t) => {
  const { brain } = await talk(t, saysWords);
  assert.equal((await clientOf(brain.url, 'sk-whatever').models.retrieve('tiny')).id, 'tiny');
  const { token } = makeToken(new SeededRandom(1), 0, 'gone', 'admin');
  const revoked = clientOf(brain.url, token).models.list();
  await refuses(revoked, OpenAI.AuthenticationError, 'UNAUTHORIZED', 'authentication_error');
});

test('a full queue refuses with the time to wait, before any stream has begun', async (t) => {
  const held = new Held();
  const { client } = await talk(t, held.model, { slots: 1, config: 'orchestrator: {queue_capacity: 1}' });
  const first = client.chat.completions.create(CHAT);
  await within(until(() => held.started.length === 1));
  const waiting = await client.chat.completions.create({ ...CHAT, stream: true });
  for (const stream of [true, false]) {
    const asking = client.chat.completions.create({ ...CHAT, stream });
    const error = await refuses(asking, OpenAI.RateLimitError, 'QUEUE_FULL', 'rate_limit_error');
    assert.ok(Number(error.headers?.get('retry-after')) >= 1);
    assert.ok(Number(error.headers?.get('x-backoff-ms')) > 0);
  }
  held.letGo();
  await first;
  for await (const _ of waiting);
});

test('bad input is refused in the shape of OpenAI, and reaches nobody', async (t) => {
  const { client, given, brain } = await talk(t, saysWords);
  const messages = HELLO;
  const model = 'tiny';
  const bad: [string, unknown, number, string | null][] = [
    ['chat/completions', { model }, 400, 'messages'],
    ['chat/completions', { messages }, 400, 'model'],
    ['chat/completions', { model, messages: [] }, 400, 'messages'],
    ['chat/completions', { model, messages: 'Hello' }, 400, 'messages'],
    ['chat/completions', { model, messages: [1] }, 400, 'messages.0'],
    ['chat/completions', { model, messages: [{ content: 'x' }] }, 400, 'messages.0'],
    ['chat/completions', { model: 7, messages }, 400, 'model'],
    ['chat/completions', { ...CHAT, stream: 'yes' }, 400, 'stream'],
    ['chat/completions', { ...CHAT, temperature: 'hot' }, 400, 'temperature'],
    ['chat/completions', { ...CHAT, temperature: 3 }, 400, 'temperature'],
    ['chat/completions', { ...CHAT, max_tokens: 0 }, 400, 'max_tokens'],
    ['chat/completions', { ...CHAT, tools: {} }, 400, 'tools'],
    ['chat/completions', { ...CHAT, n: 2 }, 422, 'n'],
    ['chat/completions', { ...CHAT, n: 1e9 }, 422, 'n'],
    ['chat/completions', { ...CHAT, n: 0.5 }, 400, 'n'],
    ['chat/completions', [], 400, null],
    ['chat/completions', 'null', 400, null],
    ['chat/completions', '', 400, null],
    ['chat/completions', '{"model": "tiny", ', 400, null],
    ['chat/completions', '{"__proto__": {}}', 400, null],
    ['completions', { model, prompt: 5 }, 400, 'prompt'],
    ['completions', { model, prompt: ['a', 'b'] }, 422, 'prompt'],
    ['completions', { model, prompt: [1, 2] }, 422, 'prompt'],
    ['completions', { model, prompt: [] }, 400, 'prompt'],
    ['embeddings', { model }, 400, 'input'],
    ['embeddings', { model, input: [] }, 400, 'input'],
    ['embeddings', { model, input: ['a', null] }, 400, 'input'],
    ['embeddings', { model, input: [[1, 2]] }, 422, 'input'],
    ['embeddings', { model, input: Array(2049).fill('x') }, 400, 'input'],
    ['embeddings', { model, input: 'x', encoding_format: 'hex' }, 400, 'encoding_format'],
    ['embeddings', { model, input: 'x', dimensions: -1 }, 400, 'dimensions'],
  ];
  for (const [path, body, status, param] of bad) {
    const response = await post(`${brain.url}/v1/${path}`, body);
    const name = `${path} ${JSON.stringify(body).slice(0, 80)}`;
    assert.equal(response.status, status, name);
    const { error } = (await response.json()) as ErrorBody;
    assert.equal(error.type, 'invalid_request_error', name);
    assert.equal(error.param, param, name);
    assert.equal(error.code, status === 400 ? 'INVALID_PARAMS' : 'UNSUPPORTED', name);
    assert.ok(error.message.length > 0 && error.correlation_id.length > 0, name);
  }
  for (const headers of [
    { 'x-orchd-priority': 'now' },
    { 'x-orchd-agent': 'a b' },
    { 'x-orchd-session': '{' },
  ])
    assert.equal((await post(`${brain.url}/v1/chat/completions`, CHAT, headers)).status, 400);
  const asking = client.chat.completions.create({ ...CHAT, messages: [] });
  await refuses(asking, OpenAI.BadRequestError, 'INVALID_PARAMS', 'invalid_request_error');
  assert.equal(given.length, 0);
  assert.equal(engineOf(brain.orchestrator).state.jobs.size, 0);
});

test('paths, methods, types of content and hosts that are wrong are refused in the same shape', async (t) => {
  const { brain } = await talk(t, saysWords);
  const of = async (path: string, init: RequestInit = {}): Promise<[number, string, string]> => {
    const response = await fetch(`${brain.url}${path}`, init);
    const { error } = (await response.json()) as ErrorBody;
    return [response.status, error.code, error.type];
  };
  assert.deepEqual(await of('/v1/none'), [404, 'NOT_FOUND', 'not_found_error']);
  const wrong = [405, 'METHOD_NOT_ALLOWED', 'invalid_request_error'];
  assert.deepEqual(await of('/v1/chat/completions'), wrong);
  assert.deepEqual(await of('/v1/models', { method: 'DELETE' }), wrong);
  const xml = { method: 'POST', body: '<a/>', headers: { 'content-type': 'text/xml' } };
  assert.deepEqual(await of('/v1/completions', xml), [
    415,
    'UNSUPPORTED_MEDIA_TYPE',
    'invalid_request_error',
  ]);
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  assert.equal((await post(`${brain.url}/v2/tasks`, '{"prompt":"x"}', form)).status, 415, 'only under /v1');
  const foreign = { ...form, origin: 'http://elsewhere.example' };
  assert.equal((await post(`${brain.url}/v1/chat/completions`, CHAT, foreign)).status, 403);
  const host = await new Promise<string>((resolve, reject) => {
    const headers = { host: 'elsewhere.example' };
    request(`${brain.url}/v1/models`, { headers }, async (response) => {
      resolve(Buffer.concat(await response.toArray()).toString());
    })
      .on('error', reject)
      .end();
  });
  assert.equal((JSON.parse(host) as ErrorBody).error.type, 'permission_error');
});

test('what fails on the backend is an error of its own status, and carries the job', async (t) => {
  const { client } = await talk(t, () => {
    throw new OrchdError('CONTEXT_TOO_LONG', 'the prompt has 9 tokens too many');
  });
  const asking = client.chat.completions.create(CHAT);
  const error = await refuses(
    asking,
    OpenAI.UnprocessableEntityError,
    'CONTEXT_TOO_LONG',
    'invalid_request_error',
  );
  assert.match(error.message, /9 tokens too many/);
  assert.ok((error.error as { job_id?: string }).job_id);
});

test('a failure after the first word is told inside the stream, which has no [DONE]', async (t) => {
  const { client, brain } = await talk(t, (_payload, { emit }) => {
    emit('first ');
    throw new OrchdError('EXECUTION_FAILED', 'the engine broke');
  });
  const said: unknown[] = [];
  const stream = await client.chat.completions.create({ ...CHAT, stream: true });
  const reading = (async () => {
    for await (const { choices } of stream) said.push(choices[0]?.delta.content);
  })();
  const error = await refuses(reading, OpenAI.APIError, 'EXECUTION_FAILED', 'server_error');
  assert.match(error.message, /the engine broke/);
  assert.deepEqual(said, ['', 'first ']);
  const raw = await (await post(`${brain.url}/v1/chat/completions`, { ...CHAT, stream: true })).text();
  assert.doesNotMatch(raw, /\[DONE\]/);
});

const RETRY = 'orchestrator: {retry: {base_delay_ms: 1, jitter: 0}}';

test('a second attempt that says the same goes on where the first one broke off', async (t) => {
  const { client } = await talk(
    t,
    (_payload, { emit, attempt }): ExecutionResult => {
      emit('one ');
      emit('two ');
      if (attempt === 1) throw new Error('the worker died');
      emit('three');
      return { text: 'one two three', finish_reason: 'stop' };
    },
    { config: RETRY },
  );
  const said: unknown[] = [];
  for await (const { choices } of await client.chat.completions.create({ ...CHAT, stream: true }))
    said.push(choices[0]?.delta.content);
  assert.deepEqual(said, ['', 'one ', 'two ', 'three', undefined]);
  const whole = await client.chat.completions.create(CHAT);
  assert.equal(whole.choices[0]?.message.content, 'one two three');
  assert.equal(whole.usage?.completion_tokens, 3, 'of the attempt that counts');
});

test('a second attempt that says something else ends the stream with an error, and the job', async (t) => {
  const held = new Held('other ');
  const { client, brain } = await talk(
    t,
    (payload, context) => {
      if (context.attempt > 1) return held.model(payload, context);
      context.emit('one ');
      throw new Error('the worker died');
    },
    { config: RETRY },
  );
  const stream = await client.chat.completions.create({ ...CHAT, stream: true });
  const reading = (async () => {
    for await (const _ of stream);
  })();
  await refuses(reading, OpenAI.APIError, 'EXECUTION_FAILED', 'server_error');
  await within(until(() => held.aborted.length === 1));
  const isOver = async (): Promise<boolean> =>
    (await brain.orchestrator.list({})).jobs[0]?.state === 'cancelled';
  await within(until(isOver));
});
