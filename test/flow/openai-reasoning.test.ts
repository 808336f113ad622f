/** What a model thinks before it answers, and the parts of its tokens, for clients of OpenAI. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OrchdError } from '../../src/model/errors.ts';
import { CHAT, type Model, talk } from './openai-kit.ts';

const usage = {
  prompt_tokens: 9,
  completion_tokens: 7,
  cache_read_tokens: 4,
  cache_write_tokens: 1,
  reasoning_tokens: 3,
};
const SHOWN = {
  prompt_tokens: 9,
  completion_tokens: 7,
  total_tokens: 16,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 3 },
};

/** Thinks in two pieces, answers in one; `reasoning` is what the result says that it has thought. */
const thinks =
  (reasoning?: string): Model =>
  (_, { emit }) => {
    emit('', { reasoning_content: 'Let me ' });
    emit('', { reasoning_content: 'think.' });
    emit('Yes.');
    return { text: 'Yes.', finish_reason: 'stop', usage, ...(reasoning !== undefined && { reasoning }) };
  };

interface Thinking {
  reasoning_content?: string;
  content?: string | null;
}

const STREAM = { ...CHAT, stream: true as const, stream_options: { include_usage: true } };

test('a message has what the model has thought, and its tokens with their parts', async (t) => {
  const { client } = await talk(t, thinks('Let me think.'));
  const { choices, usage } = await client.chat.completions.create(CHAT);
  const message = choices[0]?.message as Thinking;
  assert.deepEqual([message.reasoning_content, message.content], ['Let me think.', 'Yes.']);
  assert.deepEqual(usage, SHOWN);
});

test('where the result does not repeat it, the pieces have it; a model that does not think has no such field', async (t) => {
  const thought = await talk(t, thinks());
  const { choices } = await thought.client.chat.completions.create(CHAT);
  const message: Thinking | undefined = choices[0]?.message;
  assert.equal(message?.reasoning_content, 'Let me think.');
  const plain = await talk(t, () => ({ text: 'Yes.', usage: { prompt_tokens: 1, completion_tokens: 1 } }));
  const answer = await plain.client.chat.completions.create(CHAT);
  assert.deepEqual(Object.keys(answer.choices[0]?.message ?? {}), ['role', 'content', 'refusal']);
  assert.deepEqual(answer.usage, { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 });
});

test('a stream has it piece by piece, before the text', async (t) => {
  const { client } = await talk(t, thinks('Let me think.'));
  const deltas: Thinking[] = [];
  let last: unknown;
  for await (const chunk of await client.chat.completions.create(STREAM)) {
    if (chunk.choices[0]) deltas.push(chunk.choices[0].delta as Thinking);
    last = chunk.usage ?? last;
  }
  assert.deepEqual(deltas.slice(1, -1), [
    { reasoning_content: 'Let me ' },
    { reasoning_content: 'think.' },
    { content: 'Yes.' },
  ]);
  assert.deepEqual(last, SHOWN);
});

test('what only the result has comes at the end of a stream', async (t) => {
  const { client } = await talk(t, () => ({ text: 'Yes.', reasoning: 'Hm.', finish_reason: 'stop' }));
  const seen: Thinking[] = [];
  for await (const { choices } of await client.chat.completions.create(STREAM))
    if (choices[0]) seen.push(choices[0].delta as Thinking);
  assert.deepEqual(seen.slice(1, -1), [{ reasoning_content: 'Hm.' }, { content: 'Yes.' }]);
});

test('a retry that thinks something else does not end the stream', async (t) => {
  let tries = 0;
  const { client } = await talk(t, (_, { emit }) => {
    emit('', { reasoning_content: ++tries === 1 ? 'First.' : 'Second.' });
    if (tries === 1) throw new OrchdError('EXECUTION_FAILED', 'once more', { retriable: true });
    emit('Yes.');
    return { text: 'Yes.', reasoning: 'Second.', finish_reason: 'stop' };
  });
  const seen: Thinking[] = [];
  for await (const { choices } of await client.chat.completions.create(STREAM))
    if (choices[0]) seen.push(choices[0].delta as Thinking);
  assert.deepEqual(seen.slice(1, -1), [{ reasoning_content: 'First.' }, { content: 'Yes.' }]);
});

test('a completion of a text has no place for it', async (t) => {
  const { client } = await talk(t, thinks('Let me think.'));
  const body = { model: 'tiny', prompt: 'Hello' };
  const texts: string[] = [];
  for await (const { choices } of await client.completions.create({ ...body, stream: true }))
    texts.push(choices[0]?.text ?? '');
  assert.equal(texts.join(''), 'Yes.');
  assert.equal((await client.completions.create(body)).choices[0]?.text, 'Yes.');
});
