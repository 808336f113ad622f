/**
 * Parses a JSON body strictly: valid UTF-8, limited depth and number of values and keys, no key `__proto__`. A large body
 * is parsed in slices (docs/decisions/0020).
 */
import { isAscii } from 'node:buffer';
import { excessOf, MAX_DEPTH, MAX_KEYS, MAX_VALUES } from '../kit/depth.ts';
import type { Timers } from '../kit/env/env.ts';
import { type JsonFault, JsonFaultError, parseInSlices } from '../kit/json-parser.ts';
import { inSlices, nextTurn } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';

const strict = new TextDecoder('utf-8', { fatal: true });
/** Finds the key `__proto__`, or an escape that could spell it. */
const MAY_HOLD_PROTO = /__proto__|\\u/;

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

/** Parses a body of any size, which arrived in these pieces. */
export async function parseLargeBody(pieces: readonly Buffer[], timers: Timers): Promise<unknown> {
  const bytes = Buffer.concat(pieces);
  await nextTurn(timers);
  const text = decode(bytes);
  await nextTurn(timers);
  try {
    return await inSlices(parseInSlices(text), timers);
  } catch (error) {
    throw error instanceof JsonFaultError ? refusal(error.fault) : error;
  }
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
