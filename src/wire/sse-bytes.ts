/** The events of a stream of bytes, for Node: its decoder is the quickest for the small pieces of a token stream. */
import { StringDecoder } from 'node:string_decoder';
import { MAX_EVENT_CHARS, type SseEvent, SseReader } from './sse.ts';

/** Bytes that are handed on as they come, until they end. */
export interface ByteSource {
  read(on: (piece: Buffer) => void): Promise<void>;
}

/** Hands on the events of a stream of bytes as they become whole, without a wait between two. */
export function eachEvent(
  source: ByteSource,
  on: (event: SseEvent) => void,
  maxEventChars = MAX_EVENT_CHARS,
): Promise<void> {
  const reader = new SseReader(on, maxEventChars);
  const decoder = new StringDecoder('utf8');
  return source.read((piece) => reader.push(decoder.write(piece)));
}
