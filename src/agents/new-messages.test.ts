import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newMessages } from './new-messages.ts';
import type { ChatMessage } from './run-state.ts';

const of =
  (role: ChatMessage['role']) =>
  (content: string): ChatMessage => ({ role, content });
const [system, user, answer] = [of('system'), of('user'), of('assistant')];

/** As the session has it: with the call of a tool between question and answer. */
const CONVERSATION: readonly ChatMessage[] = [
  system('Be brief.'),
  user('one'),
  { role: 'assistant', content: 'Let me look.', tool_calls: [] },
  { role: 'tool', content: 'seen', tool_call_id: 'a' },
  answer('first'),
];

test('an empty session begins with the whole conversation of the caller', () => {
  const given = [system('Be brief.'), user('one'), answer('first'), user('two')];
  assert.deepEqual(newMessages([], given), given);
});

test('what follows the last answer is new, whatever the caller has of the messages before', () => {
  const histories = {
    whole: [system('Be brief.'), user('one'), answer('first')],
    'as it was streamed': [user('one'), answer('Let me look.\n\nfirst')],
    'a part': [answer('first')],
    edited: [user('another one'), answer('first')],
    none: [],
  };
  for (const [name, history] of Object.entries(histories))
    assert.deepEqual(newMessages(CONVERSATION, [...history, user('two')]), [user('two')], name);
  const both = [user('two'), user('three')];
  assert.deepEqual(newMessages(CONVERSATION, [...histories.whole, ...both]), both);
});

test('a system message that the session has is not added again, and another one is', () => {
  assert.deepEqual(newMessages(CONVERSATION, [system('Be brief.'), user('two')]), [user('two')]);
  const other = [system('Be kind.'), user('two')];
  assert.deepEqual(newMessages(CONVERSATION, other), other);
  const saidByUser = [user('Be brief.')];
  assert.deepEqual(newMessages(CONVERSATION, saidByUser), saidByUser);
});

test('a conversation that ends with an answer, or with what is known, asks nothing', () => {
  for (const given of [[user('one'), answer('first')], [system('Be brief.')]])
    assert.throws(() => newMessages(CONVERSATION, given), { code: 'INVALID_PARAMS' });
});
