/** The messages of a conversation as a session keeps them: also the calls of tools, with what they returned. */
import { type Static, Type } from 'typebox';
import { OrchdError } from './errors.ts';
import { ToolCall } from './worker-wire.ts';

const optional = Type.Optional;

/** A message in OpenAI's form, as an export of a session has it. */
export const ConversationMessage = Type.Object(
  {
    role: Type.Enum(['system', 'user', 'assistant', 'tool']),
    content: Type.String(),
    tool_calls: optional(
      Type.Array(ToolCall, {
        minItems: 1,
        maxItems: 1000,
        description: 'Of an assistant: each is answered by a message of the role tool that follows',
      }),
    ),
    tool_call_id: optional(Type.String({ description: 'Of a tool: the call that it answers' })),
  },
  { additionalProperties: false },
);
export type ConversationMessage = Static<typeof ConversationMessage>;

/**
 * Throws INVALID_PARAMS for a message that no conversation can have at its place. Providers refuse a conversation with a
 * call that is not answered, or an answer without its call: the session could not be used.
 */
export function checkConversation(messages: readonly ConversationMessage[]): void {
  let unanswered = new Set<string>();
  for (const [at, message] of messages.entries()) {
    const { role, tool_calls: calls, tool_call_id: answered } = message;
    if (calls && role !== 'assistant') throw misplaced(at, 'tool_calls', 'only an assistant calls tools');
    if ((answered !== undefined) !== (role === 'tool'))
      throw misplaced(at, 'tool_call_id', 'it belongs to each message of the role tool, and to no other');
    if (answered !== undefined) {
      if (!unanswered.delete(answered))
        throw misplaced(at, 'tool_call_id', `no call "${answered}" before it waits for an answer`);
      continue;
    }
    if (unanswered.size > 0) throw unansweredCalls(unanswered, at);
    unanswered = new Set(calls?.map(({ id }) => id));
    if (unanswered.size < (calls?.length ?? 0)) throw misplaced(at, 'tool_calls', 'two of them have one id');
  }
  if (unanswered.size > 0) throw unansweredCalls(unanswered, messages.length);
}

function misplaced(at: number, field: string, what: string): OrchdError {
  const path = `messages.${at}.${field}`;
  return new OrchdError('INVALID_PARAMS', `"${path}": ${what}`, { field: path });
}

const unansweredCalls = (calls: ReadonlySet<string>, at: number): OrchdError =>
  new OrchdError(
    'INVALID_PARAMS',
    `"messages": the call "${[...calls][0]}" has no answer of the role tool before message ${at}`,
    { field: 'messages' },
  );
