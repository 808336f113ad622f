/** How the brain calls a seat of a gateway (gateway-wire.ts). */
import { checker } from '../../kit/check.ts';
import { ActiveRequests, RequestState } from '../../model/gateway-wire.ts';
import { scoped } from '../../model/records.ts';
import type { ExecutorProtocol } from '../executor/protocol.ts';

export interface SeatAddress {
  /** The name of the seat. */
  readonly seat: string;
  /** The longest time of a request, which the gateway keeps to also while there is no brain. */
  readonly timeoutMs: number;
}

const checkList = checker(ActiveRequests);

export const seatProtocol = ({ seat, timeoutMs }: SeatAddress): ExecutorProtocol => ({
  executionsPath: '/requests',
  listPath: '/active_requests',
  offer({ token, ask }, work) {
    const { session_id: session } = ask.spec;
    const own = JSON.stringify({
      backend: seat,
      idempotency_token: token,
      job_id: ask.id,
      thread_id: session === undefined ? null : scoped(ask.tenant, session),
      timeout_ms: timeoutMs,
    });
    // The work is JSON already: it is put in as it is, because it may be large.
    return { path: '/submit_immediate', body: `{"payload":${work},${own.slice(1)}` };
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
