/** The official clients of OpenAI and Anthropic in front of the fake providers: what the fakes speak is the real thing. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { FakeAnthropic } from '../fakes/providers/anthropic.ts';
import { readBills } from '../fakes/providers/ledger.ts';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import { ledgerFile } from './provider-kit.ts';

const KEY = 'sk-test';
const hello = [{ role: 'user' as const, content: 'Hello there' }];
const look = { name: 'look', parameters: { type: 'object', properties: { far: { type: 'boolean' } } } };

async function openAi(t: TestContext): Promise<{ fake: FakeOpenAi; client: OpenAI }> {
  const fake = await new FakeOpenAi(ledgerFile(t)).start();
  fake.key = KEY;
  t.after(() => fake.stop());
  return { fake, client: new OpenAI({ baseURL: `${fake.url}/v1`, apiKey: KEY, maxRetries: 0 }) };
}

async function anthropic(t: TestContext): Promise<{ fake: FakeAnthropic; client: Anthropic }> {
  const fake = await new FakeAnthropic(ledgerFile(t)).start();
  fake.key = KEY;
  t.after(() => fake.stop());
  return { fake, client: new Anthropic({ baseURL: fake.url, apiKey: KEY, maxRetries: 0 }) };
}

test('a chat is streamed, whole, stored and listed by its metadata', async (t) => {
  const { client, fake } = await openAi(t);
  const body = { model: 'gpt', messages: hello };
  const final = await client.chat.completions
    .stream({ ...body, stream_options: { include_usage: true }, store: true, metadata: { orchd_token: 'a' } })
    .finalChatCompletion();
  assert.equal(final.choices[0]?.message.content, 'You said: Hello there');
  assert.equal(final.usage?.prompt_tokens_details?.cached_tokens, 5);
  const whole = await client.chat.completions.create({
    ...body,
    store: true,
    metadata: { orchd_token: 'b' },
  });
  assert.equal(whole.choices[0]?.message.content, 'You said: Hello there');
  const found: string[] = [];
  for await (const { id } of client.chat.completions.list({ metadata: { orchd_token: 'b' } })) found.push(id);
  assert.deepEqual(found, [whole.id]);
  assert.equal((await client.chat.completions.retrieve(final.id)).id, final.id);
  assert.deepEqual(
    fake.ledger.bills.map(({ tag }) => tag),
    ['a', 'b'],
  );
});

test('a chat makes calls, and refuses a wrong key', async (t) => {
  const { client, fake } = await openAi(t);
  const final = await client.chat.completions
    .stream({
      model: 'gpt',
      messages: [{ role: 'user', content: 'tools' }],
      tools: [{ type: 'function', function: look }],
    })
    .finalChatCompletion();
  const [call] = final.choices[0]?.message.tool_calls ?? [];
  assert.deepEqual(call?.type === 'function' && call.function.arguments, '{"far":true}');
  fake.key = 'another';
  await assert.rejects(
    client.chat.completions.create({ model: 'gpt', messages: hello }),
    OpenAI.AuthenticationError,
  );
});

test('a response runs in the background: streamed, retrieved and cancelled', async (t) => {
  const { client, fake } = await openAi(t);
  const body = { model: 'gpt', input: 'Hello', reasoning: { effort: 'low' as const } };
  const final = await client.responses.stream({ ...body, background: true }).finalResponse();
  assert.equal(final.output_text, 'You said: Hello');
  assert.equal(final.usage?.output_tokens_details.reasoning_tokens, 3);
  assert.equal((await client.responses.retrieve(final.id)).status, 'completed');
  fake.stage.hold('before-end');
  const { id, status } = await client.responses.create({ ...body, background: true });
  assert.equal(status, 'queued');
  assert.equal((await client.responses.retrieve(id)).status, 'in_progress');
  assert.equal((await client.responses.cancel(id)).status, 'cancelled');
  fake.stage.expired.add(id);
  await assert.rejects(client.responses.retrieve(id), OpenAI.NotFoundError);
});

test('a response makes calls', async (t) => {
  const { client } = await openAi(t);
  const final = await client.responses
    .stream({ model: 'gpt', input: 'tools', tools: [{ type: 'function', strict: false, ...look }] })
    .finalResponse();
  const [call] = final.output;
  assert.deepEqual(call?.type === 'function_call' && [call.name, call.arguments], ['look', '{"far":true}']);
});

test('a message is streamed with what it thinks, its calls and its tokens', async (t) => {
  const { client, fake } = await anthropic(t);
  const body = { model: 'claude', max_tokens: 2000, messages: hello };
  const thinking = { type: 'enabled' as const, budget_tokens: 1024 };
  const message = await client.messages.stream({ ...body, thinking }).finalMessage();
  assert.deepEqual(
    message.content.map((block) =>
      block.type === 'thinking' ? block.thinking : block.type === 'text' && block.text,
    ),
    ['Let me think.', 'You said: Hello there'],
  );
  assert.deepEqual([message.usage.input_tokens, message.usage.cache_read_input_tokens], [13, 5]);
  assert.equal(message.stop_reason, 'end_turn');
  const tools = [{ name: 'look', input_schema: { type: 'object' as const } }];
  const called = await client.messages
    .stream({ ...body, tools, messages: [{ role: 'user', content: 'tools' }] })
    .finalMessage();
  assert.deepEqual(
    called.content.map((block) => block.type === 'tool_use' && block.input),
    [{ far: true }],
  );
  fake.stage.fail('overloaded');
  await assert.rejects(
    client.messages.create(body),
    (error) => error instanceof Anthropic.APIError && error.status === 529,
  );
});

test('a batch is created, retrieved, listed and cancelled, and has results', async (t) => {
  const { client, fake } = await anthropic(t);
  const params = { model: 'claude', max_tokens: 10, messages: hello };
  const requests = [{ custom_id: 'tag', params }];
  const { id } = await client.messages.batches.create({ requests });
  const ended = await client.messages.batches.retrieve(id);
  assert.deepEqual([ended.processing_status, ended.request_counts.succeeded], ['ended', 1]);
  for await (const { custom_id, result } of await client.messages.batches.results(id)) {
    assert.equal(custom_id, 'tag');
    assert.ok(result.type === 'succeeded' && result.message.content[0]?.type === 'text');
  }
  fake.stage.hold('before-end');
  const held = await client.messages.batches.create({ requests });
  assert.equal((await client.messages.batches.cancel(held.id)).processing_status, 'canceling');
  const listed: string[] = [];
  for await (const batch of client.messages.batches.list({ limit: 1 })) listed.push(batch.id);
  assert.deepEqual(listed, [held.id, id]);
});

test('a fake provider runs as a process of its own, and is steered and observed from outside', async (t) => {
  const ledger = ledgerFile(t);
  const main = join(import.meta.dirname, '..', 'fakes', 'providers', 'main.ts');
  const child = spawn(process.execPath, [main, 'anthropic', ledger], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [port] = await once(createInterface(child.stdout), 'line');
  const url = `http://127.0.0.1:${port}`;
  const control = async (what: string, body?: object) => {
    const sent = body && { method: 'POST', body: JSON.stringify(body) };
    return (await fetch(`${url}/_control/${what}`, sent)).json() as Promise<{
      waiting: Record<string, number>;
    }>;
  };
  await control('hold', { point: 'received' });
  const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });
  const asked = client.messages.create({ model: 'claude', max_tokens: 10, messages: hello });
  while ((await control('state')).waiting['received'] !== 1);
  assert.deepEqual(
    readBills(ledger).map(({ path, prompt }) => [path, prompt]),
    [['/v1/messages', 'Hello there']],
  );
  await control('release', { point: 'received' });
  assert.equal((await asked).stop_reason, 'end_turn');
});
