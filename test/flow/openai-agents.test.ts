/** Agents as models of the name `agent:NAME`, for the official client of OpenAI. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import OpenAI from 'openai';
import type { Tool } from '../../src/index.ts';
import { makeToken, type TokenEntry } from '../../src/wire/tokens.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { SeededRandom } from '../fakes/world.ts';
import { within } from './flow-kit.ts';
import { clientOf, HELLO, until } from './openai-kit.ts';

const CONFIG = `
agents:
  - {name: helper, model: scripted, instructions: Help., tools: [look]}
  - {name: lost, model: no-such-model}
`;

const LOOK: Tool = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: () => 'seen',
};

const looks = (): ScriptedModel =>
  new ScriptedModel((turn) =>
    turn === 0 ? { text: 'Let me look.', calls: [['a', 'look', {}]] } : { text: 'I have seen it.' },
  );

async function site(
  t: TestContext,
  model: ScriptedModel,
  tokens?: readonly TokenEntry[],
): Promise<HttpBrain> {
  const brain = await httpBrain({
    config: CONFIG,
    backends: [model.backend()],
    tools: [LOOK],
    ...(tokens && { tokens }),
  });
  t.after(() => brain.stop());
  return brain;
}

const CHAT = { model: 'agent:helper', messages: HELLO };

test('agents are listed, and answer with the reply of a run and the tokens of all its calls', async (t) => {
  const model = looks();
  const client = clientOf((await site(t, model)).url);
  const names: string[] = [];
  for await (const { id } of client.models.list()) names.push(id);
  assert.deepEqual(names, ['scripted', 'agent:helper', 'agent:lost']);
  assert.equal((await client.models.retrieve('agent:helper')).owned_by, 'orchd');
  const messages = [
    { role: 'developer' as const, content: 'Be brief.' },
    { role: 'user' as const, content: [{ type: 'text' as const, text: 'Look!' }] },
  ];
  const { choices, usage, model: name } = await client.chat.completions.create({ ...CHAT, messages });
  assert.deepEqual(
    [name, choices[0]?.message.content, choices[0]?.finish_reason],
    ['agent:helper', 'I have seen it.', 'stop'],
  );
  assert.deepEqual([usage?.prompt_tokens, usage?.completion_tokens, usage?.total_tokens], [20, 10, 30]);
  assert.deepEqual(
    model.heard[0]?.messages.slice(1).map(({ role, content }) => [role, content]),
    [
      ['system', 'Be brief.'],
      ['user', 'Look!'],
    ],
  );
});

test('a stream has the words of all calls of the model as they come', async (t) => {
  const client = clientOf((await site(t, looks())).url);
  const stream = client.chat.completions.stream({ ...CHAT, stream_options: { include_usage: true } });
  const { choices, usage } = await within(stream.finalChatCompletion());
  assert.equal(choices[0]?.message.content, 'Let me look.\n\nI have seen it.');
  assert.equal(usage?.total_tokens, 30);
});

test('with a session, a front end may send the whole conversation each time, and the model reads it once', async (t) => {
  const model = new ScriptedModel((_, { messages }) =>
    messages.at(-1)?.role === 'user' && messages.length === 3
      ? { text: 'Let me look.', calls: [['a', 'look', {}]] }
      : { text: `answer to ${messages.findLast(({ role }) => role === 'user')?.content}` },
  );
  const brain = await site(t, model);
  const { chat } = clientOf(brain.url);
  const headers = { 'X-Orchd-Session': 'talk' };
  const shown: OpenAI.ChatCompletionMessageParam[] = [{ role: 'system', content: 'Be brief.' }];
  for (const content of ['one', 'two', 'three']) {
    shown.push({ role: 'user', content });
    // A front end that streams has the words of all calls, which the session has as two messages.
    const stream = chat.completions.stream({ model: 'agent:helper', messages: shown }, { headers });
    const { choices } = await within(stream.finalChatCompletion());
    shown.push({ role: 'assistant', content: choices[0]?.message.content ?? '' });
  }
  const said = [
    ['system', 'Be brief.'],
    ['user', 'one'],
    ['assistant', 'Let me look.'],
    ['tool', 'seen'],
    ['assistant', 'answer to one'],
    ['user', 'two'],
    ['assistant', 'answer to two'],
    ['user', 'three'],
  ];
  const texts = (messages: readonly { role: string; content: string }[]) =>
    messages.map(({ role, content }) => [role, role === 'tool' ? unmarked(content) : content]);
  assert.deepEqual(texts(model.heard.at(-1)?.messages.slice(1) ?? []), said);
  const stored = await brain.orchestrator.reads.sessions.messages('default', 'talk');
  assert.deepEqual(texts(stored as never), [...said, ['assistant', 'answer to three']]);

  // So may one that sends only what is new. Nothing is answered twice.
  const create = (messages: OpenAI.ChatCompletionMessageParam[]) =>
    chat.completions.create({ model: 'agent:helper', messages }, { headers });
  const { choices } = await create([{ role: 'user', content: 'four' }]);
  assert.equal(choices[0]?.message.content, 'answer to four');
  await assert.rejects(
    create(shown),
    (error) => error instanceof OpenAI.BadRequestError && /must follow the last answer/.test(error.message),
  );
});

test('a run that has failed is an error in OpenAI\u2019s form, whole or streamed', async (t) => {
  const client = clientOf((await site(t, looks())).url);
  const lost = { ...CHAT, model: 'agent:lost' };
  await assert.rejects(
    client.chat.completions.create(lost),
    (error) => error instanceof OpenAI.NotFoundError && /no-such-model/.test(error.message),
  );
  await assert.rejects(
    client.chat.completions.stream(lost).finalChatCompletion(),
    (error) => error instanceof OpenAI.APIError && /no-such-model/.test(error.message),
  );
  await assert.rejects(
    client.chat.completions.create({ ...CHAT, model: 'agent:nobody' }),
    OpenAI.NotFoundError,
  );
});

test('a run that fails in the middle of a stream ends it with an error after what was said, and the client throws', async (t) => {
  const model = new ScriptedModel((turn, _heard, { emit }) => {
    if (turn === 0) return { text: 'Let me look.', calls: [['a', 'look', {}]] };
    emit('I have ');
    throw new Error('the engine broke');
  });
  const brain = await site(t, model);
  const { chat } = clientOf(brain.url);
  const said: string[] = [];
  const finished: string[] = [];
  const follow = async (): Promise<void> => {
    for await (const { choices } of await chat.completions.create({ ...CHAT, stream: true })) {
      said.push(choices[0]?.delta.content ?? '');
      if (choices[0]?.finish_reason) finished.push(choices[0].finish_reason);
    }
  };
  const isBroken = (error: unknown): boolean =>
    error instanceof OpenAI.APIError && /the engine broke/.test(error.message);
  await assert.rejects(within(follow()), isBroken);
  assert.match(said.join(''), /^Let me look\.\n\nI have /);
  assert.deepEqual(finished, []);
  await assert.rejects(chat.completions.create(CHAT), isBroken);
});

test('what an agent cannot be asked is refused, and starts nothing', async (t) => {
  const brain = await site(t, looks());
  const { chat } = clientOf(brain.url);
  const image = { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } };
  for (const fields of [
    { n: 2 },
    { tools: [{ type: 'function' as const, function: { name: 'look' } }] },
    { response_format: { type: 'json_object' as const } },
    { messages: [{ role: 'user' as const, content: [image] }] },
    { messages: [{ role: 'tool' as const, content: 'x', tool_call_id: 'a' }] },
  ]) {
    await assert.rejects(
      chat.completions.create({ ...CHAT, ...fields }),
      (error) => error instanceof OpenAI.APIError && /not supported/.test(error.message),
      JSON.stringify(fields),
    );
  }
  assert.deepEqual((await brain.orchestrator.list({})).jobs, []);
});

for (const stream of [true, false]) {
  test(`a caller that leaves ends the run with the call of its model (${stream ? 'stream' : 'whole'})`, async (t) => {
    const began = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const model = new ScriptedModel((_turn, _heard, { signal }) => {
      began.resolve();
      return new Promise((_, reject) =>
        signal.addEventListener('abort', () => {
          ended.resolve();
          reject(new Error('stopped'));
        }),
      );
    });
    const brain = await site(t, model);
    const abort = new AbortController();
    const asking = clientOf(brain.url)
      .chat.completions.create({ ...CHAT, stream }, { signal: abort.signal })
      .then(async (answer) => {
        if (Symbol.asyncIterator in answer) for await (const _ of answer) assert.fail('it has said nothing');
      })
      .catch((error: unknown) => assert.ok(error instanceof OpenAI.APIUserAbortError));
    await within(began.promise);
    abort.abort();
    await asking;
    await within(ended.promise);
    const states = async () => (await brain.orchestrator.list({})).jobs.map(({ state }) => state);
    await within(until(async () => (await states()).every((state) => state === 'cancelled')));
    assert.equal((await states()).length, 2);
  });
}

test('a token with a list of models may use the agents of the list alone, whatever model they ask', async (t) => {
  const random = new SeededRandom(5);
  const keyFor = (name: string, models: readonly string[]) =>
    makeToken(random, 0, name, 'submit', undefined, { models });
  const [mine, other] = [keyFor('mine', ['agent:helper']), keyFor('other', ['scripted'])];
  const brain = await site(t, looks(), [mine.entry, other.entry]);
  const client = clientOf(brain.url, mine.token);
  const names: string[] = [];
  for await (const { id } of client.models.list()) names.push(id);
  assert.deepEqual(names, ['agent:helper']);
  const { choices } = await client.chat.completions.create(CHAT);
  assert.equal(choices[0]?.message.content, 'I have seen it.');
  const refused = (key: string, model: string) =>
    assert.rejects(
      clientOf(brain.url, key).chat.completions.create({ ...CHAT, model }),
      OpenAI.PermissionDeniedError,
    );
  await refused(other.token, 'agent:helper');
  await refused(mine.token, 'agent:lost');
  await refused(mine.token, 'scripted');
});

test('the cost of an answer is that of all calls of the run', async (t) => {
  const model = looks();
  const price = '{model: scripted, request: 20}';
  const brain = await httpBrain({
    config: `${CONFIG}prices: [${price}]\n`,
    backends: [model.backend()],
    tools: [LOOK],
  });
  t.after(() => brain.stop());
  const { response } = await clientOf(brain.url).chat.completions.create(CHAT).withResponse();
  assert.equal(response.headers.get('x-orchd-cost'), '40');
  const id = response.headers.get('x-orchd-job-id');
  const view = await fetch(`${brain.url}/v2/runs/${id}`);
  const run = (await view.json()) as { cost: { amount: number }; usage?: unknown };
  assert.deepEqual([run.cost.amount, run.usage], [40, undefined]);
  const job = await brain.orchestrator.get(id ?? '');
  assert.deepEqual([job.cost, job.usage], [undefined, undefined], 'the run itself costs nothing');
});
