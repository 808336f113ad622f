/**
 * A hard budget takes the bytes of a payload for the most tokens of its input (core/money/bound.ts). That holds only if
 * the dialects add no text of their own, beside what the default overheads of a price are for.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readInferenceRequest } from '../../daemons/execution/inference-request.ts';
import type { InferenceRequest } from '../../model/inference.ts';
import { messagesBody } from './anthropic-messages.ts';
import { asChat } from './as-chat.ts';
import { geminiBody } from './gemini.ts';
import { chatBody } from './openai-chat.ts';
import { responsesBody } from './openai-responses.ts';

const PER_MESSAGE = 16;
/** Less than the default of a price: the names of fields that every request has. */
const PER_REQUEST = 128;

const text = fc.string({ unit: 'binary', maxLength: 40 });
const name = fc.stringMatching(/^[a-z]{1,8}$/);
const content = fc.oneof(
  text,
  fc.array(
    text.map((words) => ({ type: 'text', text: words })),
    { maxLength: 4 },
  ),
);
const callId = fc.constantFrom('a', 'b', 'c');
const call = fc.tuple(callId, name, fc.dictionary(name, text, { maxKeys: 3 })).map(([id, called, given]) => ({
  id,
  type: 'function',
  function: { name: called, arguments: JSON.stringify(given) },
}));
const message = fc.oneof(
  fc.record({ role: fc.constantFrom('system', 'developer', 'user'), content }),
  fc.record({ role: fc.constant('assistant'), content: text, tool_calls: fc.array(call, { maxLength: 3 }) }),
  fc.record({ role: fc.constant('tool'), tool_call_id: callId, content }),
);
const tool = fc
  .tuple(name, text, fc.dictionary(name, fc.constant({ type: 'string' }), { maxKeys: 3 }))
  .map(([called, description, properties]) => ({
    type: 'function',
    function: { name: called, description, parameters: { type: 'object', properties } },
  }));
const conversation = fc.record({
  messages: fc.array(message, { minLength: 1, maxLength: 8 }),
  tools: fc.array(tool, { maxLength: 4 }),
  max_tokens: fc.constant(10),
});
/** A result of a tool belongs to a call before it, and to one only; others are left out. */
const consistent = conversation.map((given) => {
  const open = new Set<string>();
  const messages = given.messages.filter((each) => {
    if ('tool_calls' in each) for (const { id } of each.tool_calls) open.add(id);
    return !('tool_call_id' in each) || open.delete(each.tool_call_id);
  });
  return { ...given, messages: messages.length > 0 ? messages : [{ role: 'user', content: '' }] };
});
const payload = fc.oneof(consistent, fc.record({ prompt: text, max_tokens: fc.constant(10) }));

/** The bytes of all texts, and of all names of fields. */
function bytesIn(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  const names = Array.isArray(value) ? 0 : bytesIn(Object.keys(value));
  return Object.values(value).reduce((sum: number, each) => sum + bytesIn(each), names);
}

const BODIES: Record<string, (request: InferenceRequest) => object> = {
  'a chat': (request) => chatBody(asChat(request), 'm', {}),
  'a response': (request) => responsesBody(request, 'm', {}),
  'a message': (request) => messagesBody(request, 'm'),
  'a request to Gemini': geminiBody,
};
for (const [what, make] of Object.entries(BODIES)) {
  test(`the body of ${what} has no more text than the payload and the overheads of a price`, () => {
    fc.assert(
      fc.property(payload, (given) => {
        const sent = bytesIn(make(readInferenceRequest({ job_id: 'j', ...given }, 'any')));
        const messages = 'messages' in given ? given.messages.length : 1;
        const most = Buffer.byteLength(JSON.stringify(given)) + messages * PER_MESSAGE + PER_REQUEST;
        assert.ok(sent <= most, `${sent} > ${most}`);
      }),
      { numRuns: 300 },
    );
  });
}
