/** Reads a JSON body strictly: valid UTF-8, not too deep, not too many values, no key that reaches into prototypes. */
import { isAscii } from 'node:buffer';
import { excessOf, MAX_DEPTH, MAX_VALUES } from '../kit/depth.ts';
import { OrchdError } from '../model/errors.ts';

const strict = new TextDecoder('utf-8', { fatal: true });
/** The key, or an escape that could spell it. */
const SUSPICIOUS = /__proto__|\\u/;

export function parseJsonBody(bytes: Buffer): unknown {
  const text = decode(bytes);
  const value = parse(text);
  const excess = excessOf(value);
  if (excess === 'too deep') throw bad(`the body is nested deeper than ${MAX_DEPTH} levels`);
  if (excess) throw new OrchdError('TOO_LARGE', `the body holds more than ${MAX_VALUES} values`);
  // Looking at every key is worth it only where it might find something.
  if (SUSPICIOUS.test(text) && hasPrototypeKey(value)) throw bad('the key "__proto__" is not allowed');
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

/** Not by the parser's own way to look at keys, which takes ten times as long. The value is not deep. */
function hasPrototypeKey(value: unknown): boolean {
  if (value === null || typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.some(hasPrototypeKey);
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(hasPrototypeKey);
}

const bad = (message: string): OrchdError => new OrchdError('INVALID_PARAMS', message);
