/** A message of a conversation as text for people. */
import type { SessionMessages } from '../../model/http/sessions.ts';

type Message = SessionMessages['messages'][number];

/** The names of those who speak. */
const SPEAKERS: Readonly<Record<string, string>> = { user: 'you', tool: 'tool', system: 'system' };

/** `name`: what the model is called. */
export function messageText({ role, content, tool_calls: calls = [] }: Message, name = 'model'): string {
  const who = SPEAKERS[role] ?? name;
  const asked = calls.map((call) => `[calls ${toolOf(call)}]`);
  return `${who}: ${[content, ...asked].filter((text) => text !== '').join(' ')}`;
}

const toolOf = (call: unknown): string =>
  (call as { function?: { name?: string } } | null)?.function?.name ?? 'a tool';
