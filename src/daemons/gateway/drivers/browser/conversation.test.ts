import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readInferenceRequest } from '../../../execution/inference-request.ts';
import { promptOf, threadAt, threadOf } from './conversation.ts';

const SEAT = 'https://chat.example/new?model=x';
const THREAD = 'https://chat.example/c/1';

const request = (body: object) => readInferenceRequest({ job_id: 'j', ...body }, 'any');
const user = (content: unknown) => ({ role: 'user', content });

test('without a thread the whole conversation is typed, in a thread the last message', () => {
  const messages = [
    { role: 'developer', content: 'Be brief.' },
    user('One?'),
    { role: 'assistant', content: 'One.' },
    user([{ type: 'text', text: 'Two?' }]),
  ];
  const whole = 'System: Be brief.\n\nUser: One?\n\nAssistant: One.\n\nUser: Two?';
  assert.equal(promptOf(request({ messages }), undefined), whole);
  assert.equal(promptOf(request({ messages }), THREAD), 'Two?');
  assert.equal(promptOf(request({ messages: [user('Hi')] }), undefined), 'Hi');
  assert.equal(promptOf(request({ prompt: 'Hi' }), undefined), 'Hi');
});

test('what cannot be typed is refused before anything is sent', () => {
  const image = { type: 'image_url', image_url: { url: 'https://x/y.png' } };
  const tool = { type: 'function', function: { name: 'f' } };
  for (const [body, code] of [
    [{ messages: [user([image])] }, 'UNSUPPORTED'],
    [{ prompt: 'Hi', tools: [tool] }, 'UNSUPPORTED'],
    [{ prompt: 'Hi', response_format: { type: 'json_object' } }, 'UNSUPPORTED'],
    [{ input: 'Hi' }, 'UNSUPPORTED'],
    [{ messages: [{ role: 'tool', content: 'x' }, user('Hi')] }, 'UNSUPPORTED'],
    [{ messages: [user('Hi'), { role: 'assistant', content: 'x' }] }, 'INVALID_PARAMS'],
    [{ prompt: ' ' }, 'INVALID_PARAMS'],
  ] as const)
    assert.throws(
      () => promptOf(request(body), undefined),
      (error: { code: string; details: { isUncharged?: boolean } }) =>
        error.code === code && error.details.isUncharged === true,
      JSON.stringify(body),
    );
});

test('a thread is a URL of the seat; the name of a session is none', () => {
  assert.equal(threadOf(request({ prompt: 'x' }), SEAT), undefined);
  assert.equal(threadOf(request({ prompt: 'x', session_id: 'default~chat' }), SEAT), undefined);
  assert.equal(threadOf(request({ prompt: 'x', session_id: THREAD }), SEAT), THREAD);
  assert.equal(threadOf(request({ prompt: 'x', thread_id: THREAD, session_id: 'a~b' }), SEAT), THREAD);
  const foreign = [
    'https://other.example/c/1',
    'http://chat.example/c/1',
    'javascript://chat.example/%0a',
    1,
    '',
  ];
  for (const thread_id of [...foreign, 'https://me@chat.example/', 'https://chat.example.evil/'])
    assert.throws(() => threadOf(request({ prompt: 'x', thread_id }), SEAT), { code: 'INVALID_PARAMS' });
  assert.throws(() => threadOf(request({ prompt: 'x', session_id: 'file:///etc' }), SEAT), {
    code: 'INVALID_PARAMS',
  });
});

test('a page without a URL of its own has no thread', () => {
  assert.equal(threadAt(SEAT, SEAT), undefined);
  assert.equal(threadAt('https://other.example/', SEAT), undefined);
  assert.equal(threadAt(THREAD, SEAT), THREAD);
});
