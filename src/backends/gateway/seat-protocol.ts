/** How the brain calls a seat of a gateway (gateway-wire.ts). */

import { checker } from '../../kit/check.ts';
import { ActiveRequests, RequestState } from '../../model/gateway-wire.ts';
import { type HeardMessages, heard, messagesOf, NOTHING_HEARD } from '../../model/heard.ts';
import { scoped } from '../../model/records.ts';
import type { SessionThread } from '../../model/session-record.ts';
import type { ExecutorProtocol } from '../executor/protocol.ts';

export interface SeatAddress {
  /** The name of the seat. */
  readonly seat: string;
  /** The longest time of a request, which the gateway keeps to also while there is no brain. */
  readonly timeoutMs: number;
}

const checkList = checker(ActiveRequests);

interface NewPart {
  readonly thread: string;
  readonly heard: HeardMessages;
  /** The work with only the messages that the thread has not heard. */
  readonly work: string;
}

/**
 * What of the work is new to a thread of the seat; undefined if the thread has not heard exactly the earlier messages.
 * A prompt has no earlier messages: in a session it goes on with what the thread has.
 */
function onlyNew({ thread, heard: count, hash }: SessionThread, work: string): NewPart | undefined {
  if (thread === undefined || hash === undefined) return undefined;
  const fields = JSON.parse(work) as { readonly messages?: unknown };
  const known = { messages: count, hash };
  if (!Array.isArray(fields.messages)) return { thread, heard: known, work };
  const messages = messagesOf(fields);
  if (messages.length <= count) return undefined;
  if (heard(NOTHING_HEARD, messages.slice(0, count)).hash !== hash) return undefined;
  return { thread, heard: known, work: JSON.stringify({ ...fields, messages: messages.slice(count) }) };
}

export const seatProtocol = ({ seat, timeoutMs }: SeatAddress): ExecutorProtocol => ({
  executionsPath: '/requests',
  listPath: '/active_requests',
  offer({ token, ask, thread }, work) {
    const { session_id: session } = ask.spec;
    const rest = thread && onlyNew(thread, work);
    const own = JSON.stringify({
      backend: seat,
      idempotency_token: token,
      job_id: ask.id,
      thread_id: rest?.thread ?? (session === undefined ? null : scoped(ask.tenant, session)),
      ...(rest && { heard: rest.heard }),
      timeout_ms: timeoutMs,
    });
    // The work is JSON already: it is put in as it is, because it may be large.
    return { path: '/submit_immediate', body: `{"payload":${rest?.work ?? work},${own.slice(1)}` };
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
