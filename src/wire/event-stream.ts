/** Opens a response as a stream of server-sent events, with heartbeats, and closes it when its client stops reading. */
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
  /**
   * Set for a client that sends more requests on the same connection: it stays open after the stream, so each write
   * has to be framed as a chunk.
   */
  readonly keepsConnection?: boolean;
}

/** A client that reads nothing for this long is disconnected. */
const MAX_STUCK_MS = 600_000;

/** Sends the head and starts the heartbeats. The caller writes events to the returned stream. */
export function openEventStream(parts: EventStreamParts): Writable {
  const { request, response, keepsConnection = false } = parts;
  // Without chunked encoding the stream ends with the connection: a chunk frame around each token would cost more than
  // the token.
  if (!keepsConnection) response.useChunkedEncodingByDefault = false;
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'x-accel-buffering': 'no',
    ...(!keepsConnection && { connection: 'close' }),
  });
  response.flushHeaders();
  request.socket.setNoDelay(true);
  // The heartbeats detect a stuck client: the socket's own timer would be restarted for every token.
  request.socket.setTimeout(0);
  // Without chunk frames the events need not pass through the response, which would cost as much as the rest of the
  // path.
  // The response has no socket yet if an earlier answer on the same connection is still being sent.
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
