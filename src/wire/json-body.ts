/**
 * Parses a JSON body strictly: valid UTF-8, limited depth and number of values and keys, no key `__proto__`. A large body
 * is parsed in slices (docs/decisions/0020).
 */
import { isAscii } from 'node:buffer';
import { excessOf, MAX_DEPTH, MAX_KEYS, MAX_VALUES } from '../kit/depth.ts';
import type { Timers } from '../kit/env/env.ts';
import { type JsonFault, JsonFaultError, parseInSlices } from '../kit/json-parser.ts';
import { type BodySize, inSlices, nextTurn, ONE_TURN_BYTES, ownTurns } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';

/** The parsed body of a request, undefined if there is none. */
export interface RequestBody {
  readonly value: unknown;
  readonly size: BodySize;
}

const strict = new TextDecoder('utf-8', { fatal: true });
/** Finds the key `__proto__`, or an escape that could spell it. */
const MAY_HOLD_PROTO = /__proto__|\\u/;

const MAX_THIN_BYTES = 512 * 1024;
/** Each value after the first of its array or object comes after a comma; a text of ONE_TURN_BYTES can have so many. */
const MAX_THIN_MARKS = ONE_TURN_BYTES / 2;
/** By byte: commas and the openings of arrays and objects. Those inside of strings count too. */
const isMark = new Uint8Array(256);
for (const mark of ',[{') isMark[mark.charCodeAt(0)] = 1;

/** Parses a body in one turn of the event loop: for small bodies, and for those of other daemons of ours. */
export function parseJsonBody(bytes: Buffer): unknown {
  const text = decode(bytes);
  const value = parse(text);
  const excess = excessOf(value);
  if (excess) throw refusal(excess);
  // Walking all keys is worth its cost only for a text that may contain the key.
  if (MAY_HOLD_PROTO.test(text) && hasPrototypeKey(value)) throw refusal('__proto__');
  return value;
}

/** Parses a body of any size, which arrived in these pieces, and says whether it is a large one. */
export async function parseLargeBody(pieces: readonly Buffer[], timers: Timers): Promise<RequestBody> {
  await ownTurns(timers).next();
  const bytes = Buffer.concat(pieces);
  if (isThin(bytes)) return { value: parseJsonBody(bytes), size: 'small' };
  await nextTurn(timers);
  const text = decode(bytes);
  await nextTurn(timers);
  try {
    return { value: await inSlices(parseInSlices(text), timers), size: 'large' };
  } catch (error) {
    throw error instanceof JsonFaultError ? refusal(error.fault) : error;
  }
}

/**
 * Whether a body of more than ONE_TURN_BYTES costs no more than one of that size can: it is not much longer, and has no
 * more values. A bulk of a thousand jobs is one; a parser in slices takes several times as long for it.
 */
function isThin(bytes: Buffer): boolean {
  if (bytes.length > MAX_THIN_BYTES) return false;
  let marks = 0;
  // By index, and without a branch: an iterator takes ten times as long.
  for (let at = 0; at < bytes.length; at++) marks += isMark[bytes[at] as number] as number;
  return marks <= MAX_THIN_MARKS;
}

function decode(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString('latin1');
  try {
    return strict.decode(bytes);
  } catch {
    throw bad('the body is not valid UTF-8');
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw refusal('not JSON');
  }
}

/**
 * A walk over the parsed value, because a reviver for JSON.parse takes ten times as long. excessOf has limited the
 * depth.
 */
function hasPrototypeKey(value: unknown): boolean {
  if (value === null || typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.some(hasPrototypeKey);
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(hasPrototypeKey);
}

function refusal(fault: JsonFault): OrchdError {
  switch (fault) {
    case 'not JSON':
      return bad('the body is not valid JSON');
    case '__proto__':
      return bad('the key "__proto__" is not allowed');
    case 'too deep':
      return bad(`the body is nested deeper than ${MAX_DEPTH} levels`);
    case 'too many':
      return new OrchdError('TOO_LARGE', `the body holds more than ${MAX_VALUES} values`);
    case 'too many keys':
      return new OrchdError('TOO_LARGE', `an object in the body has more than ${MAX_KEYS} keys`);
  }
}

const bad = (message: string): OrchdError => new OrchdError('INVALID_PARAMS', message);
