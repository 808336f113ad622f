/** Turns a prompt into a chat, for servers and providers that have only the chat. */
import { OrchdError } from '../../model/errors.ts';
import type { ChatMessage, InferenceRequest } from '../../model/inference.ts';
import type { JsonObject } from './json.ts';

/**
 * A prompt becomes one user message: many servers have only the chat, and a model that was trained for it needs its
 * template. Only a request that came by our own `/v1/completions` asks for the text to go on.
 */
export function asChat(request: InferenceRequest): InferenceRequest {
  const { work, body } = request;
  if (work.kind !== 'completion' || body.raw_prompt === true) return request;
  const { prompt: _, ...rest } = body;
  const message = { role: 'user' as const, content: work.prompt };
  return {
    ...request,
    work: { kind: 'chat', messages: [{ role: 'user', text: work.prompt, calls: [], callId: undefined }] },
    body: { ...rest, messages: [message] },
  };
}

/** A message as it was checked, with the content that it came with: a text, parts, or nothing. */
export interface GivenMessage extends ChatMessage {
  readonly field: string;
  readonly content: unknown;
  /** The role before `developer` was read as `system`. */
  readonly givenRole: unknown;
  /** The tool calls as they came, with fields that only one provider has. */
  readonly givenCalls: unknown;
}

/** The messages of a request to a provider that has only the chat. Throws UNSUPPORTED for everything else. */
export function chatMessages(request: InferenceRequest): readonly GivenMessage[] {
  const { work, body } = asChat(request);
  if (work.kind === 'embeddings') throw unsupported('embeddings', 'input');
  if (work.kind === 'completion') throw unsupported('going on with a text', 'prompt');
  const given = (body.messages ?? []) as readonly JsonObject[];
  return work.messages.map((message, at) => ({
    ...message,
    field: `messages.${at}.content`,
    content: given[at]?.['content'],
    givenRole: given[at]?.['role'],
    givenCalls: given[at]?.['tool_calls'],
  }));
}

/** Throws UNSUPPORTED if the request sets one of the fields that the provider has nothing for. */
export function refuseFields({ body }: InferenceRequest, names: readonly string[]): void {
  for (const name of names) {
    const value = (body as JsonObject)[name];
    if (value !== undefined && value !== null) throw unsupported(`"${name}"`, name);
  }
}

export const unsupported = (what: string, field: string): OrchdError =>
  new OrchdError('UNSUPPORTED', `this provider does not support ${what}`, { field, isUncharged: true });
