/**
 * The brain as a server of the Model Context Protocol over HTTP: one message per POST, and nothing kept between two of
 * them. A call that waits, and whose client wants to hear how far it is, is answered with a stream.
 */
import { Type } from 'typebox';
import type { Env } from '../kit/env/env.ts';
import { McpFailure, McpMessage, McpResult } from '../model/http/mcp.ts';
import { roleRefusal } from '../wire/access-gate.ts';
import { openEventStream } from '../wire/event-stream.ts';
import { MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION } from '../wire/headers.ts';
import { type McpRequest, progressTokenOf, readMessage } from '../wire/mcp/message.ts';
import { CURRENT_VERSION, failure, type Reply, RPC } from '../wire/mcp/protocol.ts';
import { headerFault } from '../wire/mcp/request-headers.ts';
import { answerRequest, type McpExchange, waitingTool } from '../wire/mcp/server.ts';
import { type Call, type Route, route, type Stream } from '../wire/route.ts';
import { formatEvent } from '../wire/sse.ts';
import { RouteCalls } from './mcp-calls.ts';
import type { OpenStreams } from './open-streams.ts';

export interface McpRouteParts {
  readonly env: Env;
  readonly version: string;
  readonly heartbeatMs: number;
  readonly openStreams: OpenStreams;
  readonly newId: () => string;
  /** The routes that the tools use. */
  readonly routes: readonly Route[];
}

export function mcpRoute(parts: McpRouteParts): Route {
  const operations = new Map(parts.routes.map((each) => [each.operationId, each]));
  return route({
    operationId: 'callMcp',
    tag: 'mcp',
    method: 'POST',
    path: '/mcp',
    role: 'read',
    summary:
      'A message of the Model Context Protocol, by which assistants submit jobs, start runs and read results; a tool needs the role of the call that it makes',
    requestHeaders: {
      [MCP_PROTOCOL_VERSION]: 'The version of the protocol',
      [MCP_METHOD]: 'The method of the message, in the current version',
      [MCP_NAME]: 'The name of the tool that is called, in the current version',
    },
    body: McpMessage,
    checksBody: 'handler',
    isProxied: true,
    answers: {
      200: {
        description: 'The answer to a request, be it an error of the protocol',
        body: AnswerBody,
        events: 'As `message`: how far a call is (`notifications/progress`), at last its answer',
      },
      202: 'A notification was received: it has no answer',
      400: { description: 'It is not a message, or not one of a supported version', body: McpFailure },
      404: { description: 'There is no such method', body: McpFailure },
      429: 'Too many calls that wait',
    },
    handle: (call) => answer(parts, operations, call),
  });
}

const AnswerBody = Type.Union([McpResult, McpFailure], { title: 'McpAnswer' });

type Operations = ReadonlyMap<string, Route>;

async function answer(parts: McpRouteParts, operations: Operations, call: Call) {
  const message = readMessage(call.body);
  if (message.is === 'invalid') return { status: 400, body: failure(message.id, message.error) } as const;
  if (message.is !== 'request') return { status: 202 } as const;
  const fault = headerFault(message, call.headers);
  if (fault) return { status: 400, body: failure(message.id, fault) } as const;
  const exchange = exchangeOf(parts, operations, call);
  if (waitingTool(message)) return waitingAnswer(parts, message, exchange, call);
  return sent(message, await answerRequest(message, exchange));
}

const NEVER = new AbortController().signal;

function exchangeOf({ env, version, newId }: McpRouteParts, operations: Operations, call: Call): McpExchange {
  return {
    version,
    clock: env.clock,
    timers: env.timers,
    newId,
    brain: new RouteCalls(operations, call, env.timers),
    mayUse: ({ operation }) => {
      const performed = operations.get(operation);
      return performed !== undefined && !roleRefusal(call.identity, performed);
    },
    signal: NEVER,
    notify: () => undefined,
  };
}

/** `reply` is undefined if the client has gone: nobody reads the answer. */
function sent({ id, version }: McpRequest, reply: Reply = failure(id, CANCELLED)) {
  if ('error' in reply && reply.error.code === RPC.methodNotFound && version === CURRENT_VERSION)
    return { status: 404, body: reply } as const;
  return { status: 200, body: reply } as const;
}

const CANCELLED = { code: RPC.internalError, message: 'the call was cancelled' };

/** Counts as a stream of the caller while it waits, in whichever form it is answered. */
async function waitingAnswer(parts: McpRouteParts, request: McpRequest, exchange: McpExchange, call: Call) {
  const release = parts.openStreams.take(call.identity);
  const stop = new AbortController();
  if (progressTokenOf(request) !== undefined)
    return streamed(parts, request, { ...exchange, signal: stop.signal }, () => {
      release();
      stop.abort();
    });
  call.onDisconnect(() => stop.abort());
  try {
    return sent(request, await answerRequest(request, { ...exchange, signal: stop.signal }));
  } finally {
    release();
  }
}

/** `onClose` is called when everything is sent, or the client has gone. */
function streamed(
  { env, heartbeatMs }: McpRouteParts,
  message: McpRequest,
  exchange: McpExchange,
  onClose: () => void,
): Stream {
  return {
    stream: (request, response) => {
      const out = openEventStream({
        request,
        response,
        timers: env.timers,
        heartbeatMs,
        onDrain: () => undefined,
        onClose,
        keepsConnection: true,
      });
      const send = (value: unknown): void => {
        if (!out.writableEnded && !out.destroyed)
          out.write(formatEvent({ event: 'message', data: JSON.stringify(value) }));
      };
      void answerRequest(message, { ...exchange, notify: send })
        .catch(() => failure(message.id, FAILED))
        .then((reply) => {
          if (reply) send(reply);
          out.end();
        });
    },
  };
}

const FAILED = { code: RPC.internalError, message: 'something went wrong inside orchd' };
