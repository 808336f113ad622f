import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ConversationMessage, checkConversation } from './conversation.ts';

const call = (id: string) => ({ id, type: 'function' as const, function: { name: 'look', arguments: '{}' } });
const user: ConversationMessage = { role: 'user', content: 'hello' };
const calls = (...ids: string[]): ConversationMessage => ({
  role: 'assistant',
  content: '',
  tool_calls: ids.map(call),
});
const result = (id: string): ConversationMessage => ({ role: 'tool', content: 'seen', tool_call_id: id });
const answer: ConversationMessage = { role: 'assistant', content: 'done' };

test('a conversation with calls of tools that are all answered is taken', () => {
  checkConversation([]);
  checkConversation([user, answer, user]);
  checkConversation([
    user,
    calls('a', 'b'),
    result('b'),
    result('a'),
    calls('a'),
    result('a'),
    answer,
    { role: 'system', content: 'x' },
  ]);
});

test('one that no provider would take is refused, with the place', () => {
  const wrong: readonly [string, ConversationMessage[]][] = [
    ['messages', [user, calls('a')]],
    ['messages', [user, calls('a', 'b'), result('a'), answer]],
    ['messages', [user, calls('a'), user, result('a')]],
    ['messages.1.tool_call_id', [user, result('a')]],
    ['messages.3.tool_call_id', [user, calls('a'), result('a'), result('a')]],
    ['messages.2.tool_call_id', [user, calls('a'), result('b')]],
    ['messages.0.tool_call_id', [{ role: 'tool', content: 'x' }]],
    ['messages.0.tool_call_id', [{ ...user, tool_call_id: 'a' }]],
    ['messages.0.tool_calls', [{ ...user, tool_calls: [call('a')] }, result('a')]],
    ['messages.1.tool_calls', [user, calls('a', 'a'), result('a')]],
  ];
  for (const [field, messages] of wrong)
    assert.throws(
      () => checkConversation(messages),
      { code: 'INVALID_PARAMS', details: { field } },
      JSON.stringify(messages),
    );
});
