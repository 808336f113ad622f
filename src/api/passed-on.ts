/**
 * The answer of another node, passed on as it comes. It cannot be taken up again anywhere else: where it breaks off,
 * a stream ends with an error in its own words, and anything else with its connection.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { OrchdError } from '../model/errors.ts';
import { JOB_HEADERS, pickHeaders } from '../wire/headers.ts';
import type { StreamReply } from '../wire/outbound.ts';
import { WholeEvents } from '../wire/whole-events.ts';
import { failureText, isWhole } from './stream-end.ts';

const PASSED_ON = ['content-type', 'content-length', ...JOB_HEADERS];

/** For a reader that is this far behind nothing more is read until it has caught up. */
const MAX_WAITING_BYTES = 2 ** 20;

export function passOn(
  reply: StreamReply,
  correlationId: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  for (const [name, value] of Object.entries(pickHeaders(reply.headers, PASSED_ON)))
    response.setHeader(name, value);
  request.socket.setTimeout(0);
  request.socket.setNoDelay(true);
  response.on('drain', () => reply.resume());
  // To leave here is to leave there.
  response.on('close', () => reply.close());
  if (request.socket.destroyed) return reply.close();
  response.writeHead(reply.status);
  const write = (piece: Uint8Array | string): void => {
    response.write(piece);
    if (response.writableLength > MAX_WAITING_BYTES) reply.pause();
  };
  const isStream = reply.headers['content-type']?.startsWith('text/event-stream') ?? false;
  void (isStream ? passEvents(reply, correlationId, write) : reply.read(write)).then(
    () => response.end(),
    () => response.destroy(),
  );
}

async function passEvents(
  reply: StreamReply,
  correlationId: string,
  write: (piece: Uint8Array | string) => void,
): Promise<void> {
  let tail = '';
  const events = new WholeEvents((piece) => {
    tail = piece.toString('latin1', Math.max(0, piece.length - TAIL_BYTES));
    write(piece);
  });
  await reply.read((piece) => events.push(piece)).catch(() => undefined);
  // A connection that ends says nothing of whether all of it has come.
  if (!isWhole(tail)) write(failureText(leaderWentAway(), correlationId));
}

const TAIL_BYTES = 64;

const leaderWentAway = (): OrchdError =>
  new OrchdError('NO_LEADER', 'the leader went away while it answered; look at the job, or ask again');
