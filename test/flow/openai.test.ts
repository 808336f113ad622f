/** The official client of OpenAI, unchanged, against orchd: what it asks is answered in the shapes it knows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type OpenAI from 'openai';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { CHAT, clientOf, HELLO, type Payload, post, saysWords, talk, WORDS } from './openai-kit.ts';
import { serve, testFolder } from './server-process.ts';

const TEXT = WORDS.join('');
const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };

async function read<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of stream) all.push(each);
  return all;
}

test('a chat in one piece, and what reached the model of it', async (t) => {
  const { client, given, job } = await talk(t, saysWords);
  const { data, response } = await client.chat.completions
    .create({
      ...CHAT,
      max_completion_tokens: 20,
      temperature: 0.5,
      top_p: 0.9,
      seed: 3,
      stop: ['END'],
      user: 'somebody',
      metadata: { not: 'for the model' },
      n: 1,
      logit_bias: null,
      frequency_penalty: 0.1,
    })
    .withResponse();
  const id = response.headers.get('x-orchd-job-id')!;
  assert.equal(data.id, `chatcmpl-${id}`);
  assert.equal(data.object, 'chat.completion');
  assert.equal(data.model, 'tiny');
  assert.ok(Math.abs(data.created - Date.now() / 1000) < 60);
  assert.deepEqual(data.choices, [
    {
      index: 0,
      message: { role: 'assistant', content: TEXT, refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ]);
  assert.deepEqual(data.usage, USAGE);
  assert.deepEqual(given, [
    {
      messages: HELLO,
      max_tokens: 20,
      temperature: 0.5,
      top_p: 0.9,
      seed: 3,
      stop: ['END'],
      frequency_penalty: 0.1,
    },
  ]);
  const { state, type, model, priority, agent } = await job(id);
  assert.deepEqual(
    [state, type, model, priority, agent],
    ['succeeded', 'inference', 'tiny', 'interactive', 'local'],
  );
});

test('headers say who asks, in which session and how urgently', async (t) => {
  const { client, job } = await talk(t, saysWords);
  const headers = { 'X-Orchd-Priority': 'batch', 'X-Orchd-Session': 's-1', 'X-Orchd-Agent': 'writer' };
  const { response } = await client.chat.completions.create(CHAT, { headers }).withResponse();
  const { priority, session_id, agent } = await job(response.headers.get('x-orchd-job-id')!);
  assert.deepEqual([priority, session_id, agent], ['batch', 's-1', 'writer']);
});

test('a chat as a stream: role, text piece by piece, the reason of the end, usage where it is wanted', async (t) => {
  const { client, brain } = await talk(t, saysWords);
  for (const include_usage of [true, false]) {
    const { data, response } = await client.chat.completions
      .create({ ...CHAT, stream: true, stream_options: { include_usage } })
      .withResponse();
    const chunks = await read(data);
    const id = `chatcmpl-${response.headers.get('x-orchd-job-id')}`;
    assert.ok(chunks.every((chunk) => chunk.object === 'chat.completion.chunk' && chunk.id === id));
    assert.ok(chunks.every(({ model }) => model === 'tiny'));
    const choices = chunks.flatMap((chunk) => chunk.choices);
    assert.deepEqual(
      choices.map(({ delta }) => delta),
      [{ role: 'assistant', content: '' }, ...WORDS.map((content) => ({ content })), {}],
    );
    assert.deepEqual(
      choices.map(({ finish_reason }) => finish_reason),
      [null, null, null, null, 'stop'],
    );
    const usages = chunks.map(({ usage }) => usage);
    if (include_usage) assert.deepEqual(usages, [...choices.map(() => null), USAGE]);
    else assert.ok(usages.every((usage) => usage === undefined));
  }
  const raw = await (await post(`${brain.url}/v1/chat/completions`, { ...CHAT, stream: true })).text();
  assert.ok(raw.endsWith('\n\ndata: [DONE]\n\n'));
});

test('a text is completed, in one piece and as a stream', async (t) => {
  const { client, given } = await talk(t, saysWords);
  const whole = await client.completions.create({ model: 'tiny', prompt: 'Once', max_tokens: 9 });
  assert.equal(whole.object, 'text_completion');
  assert.deepEqual(whole.choices, [{ index: 0, text: TEXT, logprobs: null, finish_reason: 'stop' }] as never);
  assert.deepEqual(whole.usage, USAGE);
  const stream = await client.completions.create({
    model: 'tiny',
    prompt: ['Once'],
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = await read(stream);
  assert.deepEqual(
    chunks.flatMap(({ choices }) => choices.map(({ text, finish_reason }) => [text, finish_reason])),
    [...WORDS.map((word) => [word, null]), ['', 'stop']],
  );
  assert.deepEqual(chunks.at(-1)?.usage, USAGE);
  assert.deepEqual(given, [
    { prompt: 'Once', max_tokens: 9, raw_prompt: true },
    { prompt: 'Once', raw_prompt: true },
  ]);
});

test('texts are embedded, as numbers and as bytes', async (t) => {
  const vectors = [
    [0.5, -1, 2 ** -20],
    [0, 1, 3],
  ];
  const embed = ({ input }: Payload): ExecutionResult => ({
    embeddings: vectors.slice(0, Array.isArray(input) ? input.length : 1),
    usage: { prompt_tokens: 4, completion_tokens: 0 },
  });
  const { client, given } = await talk(t, embed);
  // Asks for bytes by itself, and makes numbers of them.
  const byDefault = await client.embeddings.create({ model: 'tiny', input: ['a', 'b'] });
  assert.deepEqual(
    byDefault.data.map(({ index, embedding }) => [index, embedding]),
    vectors.map((vector, at) => [at, vector]),
  );
  assert.deepEqual(byDefault.usage, { prompt_tokens: 4, total_tokens: 4 });
  const options = { model: 'tiny', input: 'a', encoding_format: 'float' as const };
  assert.deepEqual((await client.embeddings.create(options)).data[0]?.embedding, vectors[0]);
  assert.equal((await client.embeddings.create({ ...options, dimensions: 3 })).data.length, 1);
  await assert.rejects(client.embeddings.create({ ...options, dimensions: 5 }), { code: 'UNSUPPORTED' });
  await assert.rejects(client.embeddings.create({ ...options, input: ['a', 'b', 'c'] }), {
    code: 'WORKER_PROTOCOL',
  });
  assert.deepEqual(given[0], { input: ['a', 'b'] });
});

test('the models that can be asked for', async (t) => {
  const { client } = await talk(t, saysWords);
  const models = await read(client.models.list());
  assert.deepEqual(
    models.map(({ id, object, owned_by }) => [id, object, owned_by]),
    [
      ['tiny', 'model', 'orchd'],
      ['org/tiny', 'model', 'orchd'],
    ],
  );
  assert.equal((await client.models.retrieve('org/tiny')).id, 'org/tiny');
  assert.equal((await client.chat.completions.create({ ...CHAT, model: 'org/tiny' })).model, 'org/tiny');
});

const CALLS = [
  { id: 'call_1', type: 'function' as const, function: { name: 'weather', arguments: '{"city":"Ulm"}' } },
];
const TOOLS: OpenAI.Chat.ChatCompletionTool[] = [
  { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } },
];

/** As a worker tells it: in pieces, then whole. */
function callsInPieces(_payload: Payload, { emit }: FunctionContext): ExecutionResult {
  const { id, type } = CALLS[0]!;
  const piece = (call: object): void => emit('', { tool_calls: [{ index: 0, ...call }] });
  piece({ id, type, function: { name: 'weather', arguments: '' } });
  piece({ function: { arguments: '{"city":' } });
  piece({ function: { arguments: '"Ulm"}' } });
  return { text: '', finish_reason: 'tool_calls', tool_calls: CALLS };
}

for (const [how, model] of [
  ['in pieces', callsInPieces],
  ['only at the end', (): ExecutionResult => ({ text: '', tool_calls: CALLS })],
] as const) {
  test(`calls of tools, told ${how}, arrive whole, in one piece and as a stream`, async (t) => {
    const { client, given } = await talk(t, model);
    const request = { ...CHAT, tools: TOOLS, tool_choice: 'auto' as const };
    const whole = await client.chat.completions.create(request);
    assert.deepEqual(whole.choices[0]?.message.tool_calls, CALLS);
    assert.equal(whole.choices[0]?.message.content, null);
    assert.equal(whole.choices[0]?.finish_reason, 'tool_calls');
    const streamed = await client.chat.completions.stream(request).finalChatCompletion();
    const { tool_calls } = streamed.choices[0]!.message;
    assert.deepEqual(
      tool_calls?.map((call) => [call.id, call.type === 'function' && call.function.arguments]),
      [['call_1', '{"city":"Ulm"}']],
    );
    assert.equal(streamed.choices[0]?.finish_reason, 'tool_calls');
    assert.deepEqual([given[0]?.['tools'], given[0]?.['tool_choice']], [TOOLS, 'auto']);
  });
}

test('the schema of an answer reaches the model, and the answer is read by it', async (t) => {
  const model = (): ExecutionResult => ({ text: '{"city":"Ulm"}', finish_reason: 'stop' });
  const { client, given } = await talk(t, model);
  const response_format = {
    type: 'json_schema' as const,
    json_schema: {
      name: 'place',
      strict: true,
      schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  };
  const { choices } = await client.chat.completions.parse({ ...CHAT, response_format });
  assert.deepEqual(choices[0]?.message.parsed, { city: 'Ulm' });
  assert.deepEqual(given[0]?.['response_format'], response_format);
});

test('backends that know nothing of this are understood: a text, pieces only, or any value', async (t) => {
  const results: [unknown, string[], string, number][] = [
    ['plain text', [], 'plain text', 0],
    [{ text: 'of a command', exit_code: 0 }, ['of a ', 'command'], 'of a command', 2],
    [{ done: true }, ['said ', 'before'], 'said before', 2],
    [{ n: 1 }, [], '{"n":1}', 0],
    [undefined, [], '', 0],
  ];
  let [result, pieces] = results[0]!;
  const { client } = await talk(t, (_payload, { emit }) => {
    for (const piece of pieces) emit(piece);
    return result;
  });
  for (const [each, said, text, tokens] of results) {
    [result, pieces] = [each, said];
    const whole = await client.chat.completions.create(CHAT);
    assert.equal(whole.choices[0]?.message.content, text);
    assert.deepEqual(whole.usage, { prompt_tokens: 0, completion_tokens: tokens, total_tokens: tokens });
    const chunks = await read(await client.chat.completions.create({ ...CHAT, stream: true }));
    assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), text);
  }
});

test('a plain `orchd up` answers the client, and a bare curl, with its demo model', async (t) => {
  const { url } = await serve(t, { data: `${testFolder(t)}/data` });
  const client = clientOf(url);
  const chat = { ...CHAT, model: 'demo' };
  const whole = await client.chat.completions.create(chat);
  assert.match(whole.choices[0]?.message.content ?? '', /You wrote: "Hello"/);
  const stream = await client.chat.completions.create({ ...chat, stream: true });
  const pieces = (await read(stream)).map(({ choices }) => choices[0]?.delta.content ?? '');
  assert.equal(pieces.join(''), whole.choices[0]?.message.content);
  assert.ok(pieces.length > 20, 'word by word');
  const curl = { 'content-type': 'application/x-www-form-urlencoded' };
  assert.equal((await post(`${url}/v1/chat/completions`, chat, curl)).status, 200);
  assert.deepEqual(
    (await read(client.models.list())).map(({ id }) => id),
    ['demo'],
  );
  await assert.rejects(client.embeddings.create({ model: 'demo', input: 'x' }), { code: 'UNSUPPORTED' });
});
