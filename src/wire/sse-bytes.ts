/**
 * Parses server-sent events from bytes, in Node only: its StringDecoder is the fastest for the small pieces of a token
 * stream.
 */
import { StringDecoder } from 'node:string_decoder';
import { MAX_EVENT_CHARS, type SseEvent, SseReader } from './sse.ts';

/** A source that passes its bytes to `on` as they arrive and resolves at their end. */
export interface ByteSource {
  read(on: (piece: Buffer) => void): Promise<void>;
}

/** Passes each event to `on` as soon as it is complete, synchronously for all events of one piece. */
export function eachEvent(
  source: ByteSource,
  on: (event: SseEvent) => void,
  maxEventChars = MAX_EVENT_CHARS,
): Promise<void> {
  const reader = new SseReader(on, maxEventChars);
  const decoder = new StringDecoder('utf8');
  return source.read((piece) => reader.push(decoder.write(piece)));
}
