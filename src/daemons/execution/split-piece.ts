/**
 * Splits a piece of an answer that is too large for one `token` event (MAX_PROGRESS_CHARS): some servers send a whole
 * answer as one piece. Who joins the parts gets the piece back.
 */
import { MAX_PROGRESS_CHARS } from '../../model/worker-wire.ts';
import type { AnswerPiece } from './engine.ts';

/** A character takes up to six in JSON, and the event has other fields. */
const MAX_PART_CHARS = MAX_PROGRESS_CHARS / 8;

export function splitPiece(piece: AnswerPiece): readonly AnswerPiece[] {
  if ('text' in piece) {
    if (piece.text.length <= MAX_PART_CHARS) return [piece];
    return splitText(piece.text).map((text) => ({ text }));
  }
  if ('reasoning' in piece) {
    if (piece.reasoning.length <= MAX_PART_CHARS) return [piece];
    return splitText(piece.reasoning).map((reasoning) => ({ reasoning }));
  }
  if (JSON.stringify(piece.toolCalls).length <= MAX_PROGRESS_CHARS / 2) return [piece];
  return piece.toolCalls.flatMap(splitCall).map((call) => ({ toolCalls: [call] }));
}

interface CallDelta {
  readonly index?: unknown;
  readonly function?: { readonly arguments?: unknown };
}

/** The first part has everything but the rest of the arguments, as the first delta of a call has in OpenAI's form. */
function splitCall(call: unknown): unknown[] {
  const { index, function: called } = (call ?? {}) as CallDelta;
  if (typeof called?.arguments !== 'string' || called.arguments.length <= MAX_PART_CHARS) return [call];
  const [first, ...rest] = splitText(called.arguments);
  const begin = { ...(call as object), function: { ...called, arguments: first } };
  return [begin, ...rest.map((part) => ({ index, function: { arguments: part } }))];
}

function splitText(text: string): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length; ) {
    let to = from + MAX_PART_CHARS;
    // The two halves of a character beyond U+FFFF stay together.
    if (isHighSurrogate(text.charCodeAt(to - 1))) to--;
    parts.push(text.slice(from, to));
    from = to;
  }
  return parts;
}

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code < 0xdc00;
