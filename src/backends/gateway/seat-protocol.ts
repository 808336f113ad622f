/** How the brain calls a seat of a gateway (gateway-wire.ts). */

import type { OfferedConversation } from '../../core/ports/backend.ts';
import { checker } from '../../kit/check.ts';
import { ActiveRequests, RequestState } from '../../model/gateway-wire.ts';
import { type HeardMessages, heard, messagesOf, nothingHeard } from '../../model/heard.ts';
import { scoped } from '../../model/records.ts';
import type { ExecutorProtocol } from '../executor/protocol.ts';

export interface SeatAddress {
  /** The name of the seat. */
  readonly seat: string;
  /** The longest time of a request, which the gateway keeps to also while there is no brain. */
  readonly timeoutMs: number;
}

const checkList = checker(ActiveRequests);

/** A longer work is sent whole, in a new thread: to find out what is new takes some milliseconds of the event loop. */
const MAX_LOOKED_THROUGH_CHARS = 2 ** 20;

/** What of a work is sent, and in which thread. */
interface SentPart {
  /** Undefined: in a new thread. */
  readonly thread?: string | undefined;
  /** What the thread has heard before. */
  readonly heard: HeardMessages;
  /** The work with only the messages that the thread has not heard. */
  readonly work: string;
}

/**
 * What of the work is new to the thread of the seat: all of it, unless the thread has heard exactly the earlier messages.
 * A prompt has no earlier messages: in a session it goes on with what the thread has.
 */
function newPart({ seed, thread: known }: OfferedConversation, work: string): SentPart {
  const whole = { heard: nothingHeard(seed), work };
  if (known?.thread === undefined || known.hash === undefined || work.length > MAX_LOOKED_THROUGH_CHARS)
    return whole;
  const fields = JSON.parse(work) as { readonly messages?: unknown; readonly thread_id?: unknown };
  // The caller knows a thread of its own.
  if (fields.thread_id !== undefined && fields.thread_id !== null) return whole;
  const { thread, heard: count, hash } = known;
  const before = { messages: count, hash };
  if (!Array.isArray(fields.messages)) return { thread, heard: before, work };
  const messages = messagesOf(fields);
  if (messages.length <= count) return whole;
  if (heard(nothingHeard(seed), messages.slice(0, count)).hash !== hash) return whole;
  return { thread, heard: before, work: JSON.stringify({ ...fields, messages: messages.slice(count) }) };
}

export const seatProtocol = ({ seat, timeoutMs }: SeatAddress): ExecutorProtocol => ({
  executionsPath: '/requests',
  listPath: '/active_requests',
  offer({ token, ask, conversation }, work) {
    const { session_id: session } = ask.spec;
    const part = conversation && newPart(conversation, work);
    const own = JSON.stringify({
      backend: seat,
      idempotency_token: token,
      job_id: ask.id,
      thread_id: part?.thread ?? (session === undefined ? null : scoped(ask.tenant, session)),
      ...(part && { heard: part.heard }),
      timeout_ms: timeoutMs,
    });
    // The work is JSON already: it is put in as it is, because it may be large.
    return { path: '/submit_immediate', body: `{"payload":${part?.work ?? work},${own.slice(1)}` };
  },
  kill: (token, how) => ({
    path: `/requests/${encodeURIComponent(token)}/kill`,
    body: JSON.stringify({ how }),
  }),
  readList(answer) {
    const { requests, ...memory } = checkList(answer);
    return {
      ...memory,
      executions: requests.map(({ idempotency_token: token, job_id, state, hash }) => ({
        token,
        job_id,
        state,
        ...(hash !== undefined && { hash }),
      })),
    };
  },
  readState: checker(RequestState),
});
