/** A response that is a stream of server-sent events, for as long as its reader takes them. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Timers } from '../kit/env/env.ts';
import { every } from '../kit/every.ts';
import { HEARTBEAT } from './sse.ts';

export interface EventStreamParts {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly timers: Timers;
  readonly heartbeatMs: number;
  readonly onDrain: () => void;
  readonly onClose: () => void;
  /** The reader asks again and again: its connection outlives the stream, and every write has a frame around it. */
  readonly keepsConnection?: boolean;
}

/** A reader that takes nothing for this long is gone. */
const MAX_STUCK_MS = 600_000;

/** Sends the head and keeps the stream alive; events are written to what is returned. */
export function openEventStream(parts: EventStreamParts): Writable {
  const { request, response, keepsConnection = false } = parts;
  // The end of the connection is the end of the stream: frames around every token would cost more than the token.
  if (!keepsConnection) response.useChunkedEncodingByDefault = false;
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'x-accel-buffering': 'no',
    ...(!keepsConnection && { connection: 'close' }),
  });
  response.flushHeaders();
  request.socket.setNoDelay(true);
  // The beats look after it: a timer of the socket's own would be set anew for every token.
  request.socket.setTimeout(0);
  // Nothing is around the events, so they need not pass the response, which costs as much as the rest of the way.
  // It has no socket yet where an earlier answer on the same connection is not sent.
  const out: Writable = keepsConnection ? response : (response.socket ?? response);
  keepAlive(out, parts);
  return out;
}

function keepAlive(
  out: Writable,
  { response, timers, heartbeatMs, onDrain, onClose }: EventStreamParts,
): void {
  let stuckMs = 0;
  const stopHeartbeat = every(timers, heartbeatMs, () => {
    stuckMs = out.writableNeedDrain ? stuckMs + heartbeatMs : 0;
    if (stuckMs >= MAX_STUCK_MS) response.destroy();
    else if (stuckMs === 0) out.write(HEARTBEAT);
  });
  out.on('drain', () => {
    stuckMs = 0;
    onDrain();
  });
  response.on('close', () => {
    stopHeartbeat();
    onClose();
  });
}
