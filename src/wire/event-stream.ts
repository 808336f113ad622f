/** Opens a response as a stream of server-sent events, with heartbeats, and closes it when its client stops reading. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
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
  /** Whether an event is written only in part, so that no heartbeat may be written now. */
  readonly isWithinEvent?: () => boolean;
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
  const out: Writable = keepsConnection ? response : (response.socket ?? response);
  // A write to a connection that has just broken is an error of nobody: `close` follows.
  response.on('error', () => undefined);
  keepAlive(out, parts);
  return out;
}

/**
 * Sends heartbeats until the stream ends. After that the client may take its time to read the rest, but it must go on
 * reading; a client that has everything and does not close its side is disconnected.
 */
function keepAlive(
  out: Writable,
  { request, response, timers, heartbeatMs, onDrain, onClose, isWithinEvent }: EventStreamParts,
): void {
  // The client disconnected before its stream began: no `close` event will follow.
  if (request.socket.destroyed) return onClose();
  const stuck = new StuckClient(out, request.socket, heartbeatMs);
  const stopHeartbeat = every(timers, heartbeatMs, () => {
    if (stuck.isGone()) response.destroy();
    else if (!out.writableEnded && !out.writableNeedDrain && !isWithinEvent?.()) out.write(HEARTBEAT);
  });
  let isClosed = false;
  const close = (): void => {
    if (!isClosed) onClose();
    isClosed = true;
  };
  out.on('drain', onDrain);
  // Everything is sent: what the stream holds is released now, however long the client keeps its side open.
  out.on('finish', close);
  response.on('close', () => {
    stopHeartbeat();
    close();
  });
}

/** Finds out, once per heartbeat, whether the client has stopped reading. */
class StuckClient {
  readonly #out: Writable;
  readonly #socket: Socket;
  readonly #heartbeatMs: number;
  #stuckMs = 0;
  #sentBytes = 0;
  #finishedBeats = 0;

  constructor(out: Writable, socket: Socket, heartbeatMs: number) {
    this.#out = out;
    this.#socket = socket;
    this.#heartbeatMs = heartbeatMs;
  }

  isGone(): boolean {
    const { writableNeedDrain, writableEnded, writableFinished, writableLength } = this.#out;
    // A client that received everything has one heartbeat to close its side.
    if (writableFinished && ++this.#finishedBeats > 1) return true;
    const isWaiting = writableEnded ? writableLength > 0 : writableNeedDrain;
    // The unsent bytes alone do not tell: a large event is written in pieces, and one may replace another.
    const sentBytes = this.#socket.bytesWritten - this.#socket.writableLength;
    const isStuck = isWaiting && sentBytes <= this.#sentBytes;
    this.#sentBytes = sentBytes;
    this.#stuckMs = isStuck ? this.#stuckMs + this.#heartbeatMs : 0;
    return this.#stuckMs >= MAX_STUCK_MS;
  }
}
