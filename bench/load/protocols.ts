/**
 * The ways to ask for a stream of tokens: OpenAI's API, which orchd, Portkey and the source itself serve, and those of
 * the executors, a worker and a gateway, as a brain calls them.
 */
import { EPOCH_HEADER, OWNER_HEADER, TOKEN_HEADER } from '../../src/model/worker-wire.ts';
import { MODEL } from '../systems/pool-stub.ts';

export type ProtocolName = 'openai' | 'worker' | 'gateway';

/** The seat of the gateway of the bench. */
export const SEAT = 'bench';

export interface StreamProtocol {
  readonly path: string;
  /** `token` names the request at an executor; no two requests may have the same. */
  headers(token: string): Readonly<Record<string, string>>;
  body(prompt: string, token: string): object;
  /** What stands before the text of every token. */
  readonly mark: string;
  /** What only the end of a stream contains. */
  readonly end: string;
  /** Where a result is acknowledged, as a brain does after every stream. */
  ackPath?(token: string): string;
}

const commander = { [OWNER_HEADER]: 'bench', [EPOCH_HEADER]: '1' };
const json = { 'content-type': 'application/json' };
const messagesOf = (prompt: string): object[] => [{ role: 'user', content: prompt }];
const EVENTS = { mark: '"t":"', end: 'event: end\n' };

export const PROTOCOLS: Readonly<Record<ProtocolName, StreamProtocol>> = {
  openai: {
    path: '/v1/chat/completions',
    headers: () => json,
    body: (prompt) => ({
      model: MODEL,
      stream: true,
      stream_options: { include_usage: true },
      messages: messagesOf(prompt),
    }),
    mark: '"content":"',
    end: '[DONE]',
  },
  worker: {
    path: '/execute',
    headers: (token) => ({ ...json, ...commander, [TOKEN_HEADER]: token }),
    body: (prompt, token) => ({ job_id: token, messages: messagesOf(prompt) }),
    ackPath: (token) => `/executions/${token}/ack`,
    ...EVENTS,
  },
  gateway: {
    path: '/submit_immediate',
    headers: () => ({ ...json, ...commander, accept: 'text/event-stream' }),
    body: (prompt, token) => ({
      backend: SEAT,
      idempotency_token: token,
      payload: { model: MODEL, messages: messagesOf(prompt) },
    }),
    ackPath: (token) => `/requests/${token}/ack`,
    ...EVENTS,
  },
};

let made = 0;

/** A token that no other process of this run uses. */
export const newToken = (): string => `${process.pid}-${process.hrtime.bigint()}-${++made}`;
