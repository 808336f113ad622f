/**
 * Writes long content to a connection in pieces, as the client takes them: each in a turn of its own, so that many readers
 * of large answers do not keep the event loop busy together, and never more than one piece that is not sent yet.
 */
import type { Writable } from 'node:stream';
import type { Timers } from '../kit/env/env.ts';
import { pieceEnd } from '../kit/json-writer.ts';
import { ownTurns } from '../kit/slices.ts';

/** A part of given bytes costs no memory of its own. */
const PIECE_BYTES = 256 * 1024;

/** A client that does not take a piece within this time is disconnected: others may wait for the memory. */
const MAX_STUCK_MS = 65_000;

/** Resolves when all pieces are written, or the connection is closed; the caller ends the response. */
export async function writeInPieces(
  out: Writable,
  all: readonly (string | Buffer)[],
  timers: Timers,
): Promise<void> {
  const turns = ownTurns(timers);
  const pieces = piecesOf(all);
  for (;;) {
    await turns.next();
    if (out.destroyed) return;
    const { done, value } = pieces.next();
    if (done) return;
    if (!out.write(value)) await drained(out, timers);
  }
}

/** Text is encoded piece by piece, when it is asked for. */
function* piecesOf(all: readonly (string | Buffer)[]): Generator<Buffer> {
  for (const part of all) yield* typeof part === 'string' ? piecesOfText(part) : piecesOfBytes(part);
}

function* piecesOfBytes(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

function* piecesOfText(text: string): Generator<Buffer> {
  for (let start = 0; start < text.length; ) {
    const end = pieceEnd(text, start);
    yield Buffer.from(text.slice(start, end));
    start = end;
  }
}

/** Resolves when the client has read what was written, or is gone; one that reads nothing for long is disconnected. */
export function drained(out: Writable, timers: Timers): Promise<void> {
  return new Promise((resolve) => {
    let left = out.writableLength;
    const check = (): void => {
      if (out.writableLength >= left) return void out.destroy();
      left = out.writableLength;
      cancel = timers.after(MAX_STUCK_MS, check);
    };
    let cancel = timers.after(MAX_STUCK_MS, check);
    const end = (): void => {
      cancel();
      out.off('drain', end);
      out.off('close', end);
      resolve();
    };
    out.on('drain', end);
    out.on('close', end);
    if (out.destroyed) end();
  });
}
