/**
 * Copies the leader's answer to the client as it arrives. Such an answer cannot be resumed at another node: if it
 * breaks off, an event stream ends with an error event, and any other answer with a closed connection.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { OrchdError } from '../model/errors.ts';
import { ANSWER_HEADERS, pickHeaders } from '../wire/headers.ts';
import type { StreamReply } from '../wire/outbound.ts';
import { WholeEventBuffer } from '../wire/whole-event-buffer.ts';
import { failureText, isComplete } from './stream-end.ts';

const PROXIED_HEADERS = ['content-type', 'content-length', ...ANSWER_HEADERS];

/** With more unsent bytes than this, reading from the leader pauses until the client has caught up. */
const MAX_BUFFERED_BYTES = 2 ** 20;

export function proxyAnswer(
  reply: StreamReply,
  correlationId: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  for (const [name, value] of Object.entries(pickHeaders(reply.headers, PROXIED_HEADERS)))
    response.setHeader(name, value);
  request.socket.setNoDelay(true);
  response.on('drain', () => reply.resume());
  // A client that disconnects here also disconnects from the leader, which may cancel its job.
  response.on('close', () => reply.close());
  if (request.socket.destroyed) return reply.close();
  response.writeHead(reply.status);
  const write = (piece: Uint8Array | string): void => {
    response.write(piece);
    if (response.writableLength > MAX_BUFFERED_BYTES) reply.pause();
  };
  const isStream = reply.headers['content-type']?.startsWith('text/event-stream') ?? false;
  void (isStream ? proxyEvents(reply, correlationId, write) : reply.read(write)).then(
    () => response.end(),
    () => response.destroy(),
  );
}

async function proxyEvents(
  reply: StreamReply,
  correlationId: string,
  write: (piece: Uint8Array | string) => void,
): Promise<void> {
  let tail = '';
  const events = new WholeEventBuffer((piece) => {
    tail = piece.toString('latin1', Math.max(0, piece.length - TAIL_BYTES));
    write(piece);
  });
  await reply.read((piece) => events.push(piece)).catch(() => undefined);
  // The end of the connection does not show whether the stream was complete; its last event does.
  if (!isComplete(tail)) write(failureText(leaderLost(), correlationId));
}

const TAIL_BYTES = 64;

const leaderLost = (): OrchdError =>
  new OrchdError(
    'NO_LEADER',
    'the leader was lost while it answered; look the job up, or repeat the request',
  );
