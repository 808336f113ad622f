/**
 * Which messages of a request are new in its session. Chat front ends send the whole conversation each time, in the form
 * in which they show it; the session has the same messages already, and with the calls of tools between them.
 */
import { OrchdError } from '../model/errors.ts';
import type { ChatMessage } from './run-state.ts';

/**
 * The messages behind the last answer, without `system` messages that the session has. All of them where the session is
 * empty: it begins with the conversation of the caller. Throws INVALID_PARAMS where nothing is new.
 */
export function newMessages(
  conversation: readonly ChatMessage[],
  given: readonly ChatMessage[],
): readonly ChatMessage[] {
  if (conversation.length === 0) return given;
  const isKnown = ({ role, content }: ChatMessage): boolean =>
    role === 'system' && conversation.some((each) => each.role === 'system' && each.content === content);
  const last = given.findLastIndex(({ role }) => role === 'assistant');
  const added = given.slice(last + 1).filter((message) => !isKnown(message));
  if (added.length > 0) return added;
  throw new OrchdError(
    'INVALID_PARAMS',
    'the session has all of these messages: a message of the user must follow the last answer',
    { field: 'messages' },
  );
}
