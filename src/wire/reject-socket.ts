/** Answers a malformed or incomplete HTTP request with an error, directly on its socket, and closes the socket. */
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ErrorCode, OrchdError } from '../model/errors.ts';
import { endSoon } from './connections.ts';
import { renderError } from './render-error.ts';

export function rejectSocket(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable || owesAnswer(socket)) {
    socket.destroy();
    return;
  }
  const { status, body } = renderError(new OrchdError(codeOf(error)), 'none');
  const text = JSON.stringify(body);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n`;
  endSoon(socket, head + text);
}

function codeOf(error: { code?: string }): ErrorCode {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'REQUEST_TIMEOUT';
  return error.code === 'HPE_HEADER_OVERFLOW' ? 'TOO_LARGE' : 'INVALID_PARAMS';
}

/**
 * Whether the answer to an earlier request is still due on this socket: the client would read an error written now as
 * part of that answer, or in its place.
 */
function owesAnswer(socket: Duplex): boolean {
  // Node checks the same field before it writes; with pipelined requests it holds the answer to the first of them.
  const { _httpMessage: answer } = socket as { _httpMessage?: ServerResponse | null };
  return answer ? answer.headersSent || answer.req.complete : false;
}
