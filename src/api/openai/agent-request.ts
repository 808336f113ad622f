/** Converts a chat request for `agent:NAME` into a run of that agent. */
import type { RunRequest } from '../../model/agent.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ChatRequest } from '../../model/http/openai.ts';
import { RUN_TYPE } from '../../model/run-jobs.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { headerOf, SESSION } from '../../wire/headers.ts';
import type { Call } from '../../wire/route.ts';
import { type ParsedRequest, submitRequestOf, unsupported } from './request.ts';

type Message = NonNullable<RunRequest['messages']>[number];

/** The job of the run. Settings of the model, such as `temperature`, are the agent's and are left out. */
export function runRequestOf(
  call: Call,
  parsed: ParsedRequest,
  agent: string,
  request: ChatRequest,
): SubmitRequest {
  if (request.tools?.length)
    throw unsupported('a request with tools to an agent, which has its own,', 'tools');
  const { response_format: format } = request;
  if (format && format['type'] !== 'text')
    throw unsupported('a form of the answer that the caller chooses', 'response_format');
  const payload = {
    agent,
    messages: request.messages.map(messageOf),
    ...(headerOf(call.headers, SESSION) !== undefined && { repeats_history: true }),
  };
  const { model: _, ...job } = submitRequestOf(call, { ...parsed, payload });
  return { ...job, type: RUN_TYPE };
}

const ROLES: Readonly<Record<string, Message['role']>> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
};

function messageOf(message: ChatRequest['messages'][number], at: number): Message {
  const role = Object.hasOwn(ROLES, message.role) ? ROLES[message.role] : undefined;
  if (!role) throw unsupported('a message of this role to an agent', `messages.${at}.role`);
  const { content, tool_calls: calls } = message as { content?: unknown; tool_calls?: unknown };
  if (Array.isArray(calls) && calls.length > 0)
    throw unsupported('a message with calls of tools to an agent', `messages.${at}.tool_calls`);
  return { role, content: textOf(content, at) };
}

/** Clients send a text as it is, or as a list of parts. */
function textOf(content: unknown, at: number): string {
  const field = `messages.${at}.content`;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content))
    throw new OrchdError('INVALID_PARAMS', `"${field}" must be a text or a list of texts`, { field });
  return content.map((part) => partText(part, field)).join('');
}

function partText(part: unknown, field: string): string {
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
  if (type === 'text' && typeof text === 'string') return text;
  throw unsupported('content other than text in a message to an agent', field);
}
