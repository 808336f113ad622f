/**
 * A hash of the messages that a backend has heard in a conversation. It is a chain, so that whoever knows the hash of the
 * earlier messages can go on without them. It begins with a secret of the session, which goes with the session's key: the
 * hashes in logs then tell nothing about what was said, though short messages could be guessed.
 */
import { hash as hashOf } from 'node:crypto';

export interface HeardMessages {
  /** The number of messages. */
  readonly messages: number;
  readonly hash: string;
}

/** The beginning of a thread; `seed` is the secret of its session. */
export const nothingHeard = (seed: string): HeardMessages => ({ messages: 0, hash: seed });

/** The messages of a request: those of a chat, or the prompt as one message of the user. */
export function messagesOf(request: {
  readonly messages?: unknown;
  readonly prompt?: unknown;
}): readonly unknown[] {
  if (Array.isArray(request.messages)) return request.messages as readonly unknown[];
  return typeof request.prompt === 'string' ? [{ role: 'user', content: request.prompt }] : [];
}

export const answerOf = (text: string): object => ({ role: 'assistant', content: text });

/** Adds messages to those heard before. */
export function heard(before: HeardMessages, messages: readonly unknown[]): HeardMessages {
  let { hash } = before;
  for (const message of messages)
    hash = hashOf('sha256', `${hash}\n${JSON.stringify(wordsOf(message))}`, 'base64url');
  return { messages: before.messages + messages.length, hash };
}

/** Who says what: clients send the same message back with other fields, and its text as a string or as a list of parts. */
function wordsOf(message: unknown): readonly unknown[] {
  const { role, content, tool_calls, tool_call_id } = (message ?? {}) as Record<string, unknown>;
  const parts = Array.isArray(content) ? (content as readonly unknown[]) : undefined;
  const isText = parts?.every((part) => (part as { type?: unknown } | null)?.type === 'text') === true;
  const said = isText ? parts?.map((part) => String((part as { text?: unknown }).text)).join('') : content;
  return [role, said ?? null, tool_calls ?? null, tool_call_id ?? null];
}
