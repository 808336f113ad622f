/** Parses a JSON body strictly: valid UTF-8, limited depth and number of values, no key `__proto__`. */
import { isAscii } from 'node:buffer';
import { excessOf, MAX_DEPTH, MAX_VALUES } from '../kit/depth.ts';
import { OrchdError } from '../model/errors.ts';

const strict = new TextDecoder('utf-8', { fatal: true });
/** Finds the key `__proto__`, or an escape that could spell it. */
const MAY_HOLD_PROTO = /__proto__|\\u/;

export function parseJsonBody(bytes: Buffer): unknown {
  const text = decode(bytes);
  const value = parse(text);
  const excess = excessOf(value);
  if (excess === 'too deep') throw bad(`the body is nested deeper than ${MAX_DEPTH} levels`);
  if (excess) throw new OrchdError('TOO_LARGE', `the body holds more than ${MAX_VALUES} values`);
  // Walking all keys is worth its cost only for a text that may contain the key.
  if (MAY_HOLD_PROTO.test(text) && hasPrototypeKey(value)) throw bad('the key "__proto__" is not allowed');
  return value;
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
    throw bad('the body is not valid JSON');
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

const bad = (message: string): OrchdError => new OrchdError('INVALID_PARAMS', message);
