/** What a request types into the chat page, and in which conversation of the page. */
import { OrchdError } from '../../../../model/errors.ts';
import type { InferenceRequest } from '../../../../model/inference.ts';
import { MAX_THREAD_CHARS } from '../../../../model/worker-wire.ts';
import {
  chatMessages,
  type GivenMessage,
  refuseFields,
  unsupported,
} from '../../../../wire/dialects/as-chat.ts';

/** The conversation that a request goes on with: the URL of its page; undefined for a new one. */
export type Thread = string | undefined;

const HAS_SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i;
/** Fields that ask for something that a person at the page could not ask for. Settings of the sampling are ignored. */
const UNSUPPORTED_FIELDS = ['tools', 'functions', 'modalities', 'audio', 'prediction'];

const SPEAKERS: Readonly<Record<GivenMessage['role'], string>> = {
  system: 'System',
  user: 'User',
  assistant: 'Assistant',
  tool: 'Tool',
};

/**
 * The thread of a request: `thread_id` of the payload, or the `thread_id` that the gateway was given, if it is a URL.
 * The brain gives the name of the job's session there, which is no URL, until the page has given it a thread.
 * Throws INVALID_PARAMS for a URL of another origin than that of the seat: a prompt is typed nowhere else.
 */
export function threadOf({ body, sessionId }: InferenceRequest, seatUrl: string): Thread {
  const given = (body as { readonly thread_id?: unknown }).thread_id;
  if (given !== undefined && given !== null) return checkThread(given, seatUrl);
  return sessionId !== undefined && HAS_SCHEME.test(sessionId) ? checkThread(sessionId, seatUrl) : undefined;
}

function checkThread(given: unknown, seatUrl: string): string {
  const url = typeof given === 'string' && given.length <= MAX_THREAD_CHARS ? URL.parse(given) : null;
  if (url && isOfSeat(url.href, seatUrl)) return url.href;
  throw new OrchdError(
    'INVALID_PARAMS',
    `"thread_id" must be a URL of the page of this seat, below ${new URL(seatUrl).origin}`,
    { field: 'thread_id', isUncharged: true },
  );
}

/** Whether a page has the origin of the seat. */
export function isOfSeat(pageUrl: string, seatUrl: string): boolean {
  const url = URL.parse(pageUrl);
  return url !== null && url.origin === new URL(seatUrl).origin && url.username === '' && url.password === '';
}

/** The URL by which the conversation is found again; undefined where the page has none of its own. */
export const threadAt = (pageUrl: string, seatUrl: string): Thread =>
  isOfSeat(pageUrl, seatUrl) && pageUrl !== new URL(seatUrl).href && pageUrl.length <= MAX_THREAD_CHARS
    ? pageUrl
    : undefined;

/**
 * The text to type. In a thread that the caller has named it is the last message, which must be one of the user: the page
 * has the others. Without a thread it is the whole conversation, and in a thread of the brain all messages of the request,
 * since it sends only those that the thread has not heard: a single message of the user as it is, else `Speaker: text`
 * for each message, with an empty line between them.
 */
export function promptOf(request: InferenceRequest, thread: Thread): string {
  refuseFields(request, UNSUPPORTED_FIELDS);
  if (request.format !== 'any') throw unsupported('"response_format"', 'response_format');
  const messages = chatMessages(request);
  for (const message of messages) checkMessage(message);
  const last = messages.at(-1);
  if (last?.role !== 'user' || last.text.trim() === '')
    throw new OrchdError('INVALID_PARAMS', 'the last message must be one of the user, with a text', {
      field: 'messages',
      isUncharged: true,
    });
  const isLastOnly = thread !== undefined && request.heard === undefined;
  if (isLastOnly || messages.length === 1) return last.text;
  return messages.map(({ role, text }) => `${SPEAKERS[role]}: ${text}`).join('\n\n');
}

function checkMessage({ role, calls, content, field }: GivenMessage): void {
  if (role === 'tool' || calls.length > 0) throw unsupported('calls of tools', field);
  const parts: readonly unknown[] = Array.isArray(content) ? content : [];
  if (parts.some((part) => (part as { type?: unknown } | null)?.type !== 'text'))
    throw unsupported('anything but text', field);
}
