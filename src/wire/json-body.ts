/** Reads a JSON body strictly: valid UTF-8, not too deep, no key that reaches into prototypes. */
import { isAscii } from 'node:buffer';
import { isTooDeep, MAX_DEPTH } from '../kit/depth.ts';
import { OrchdError } from '../model/errors.ts';

const strict = new TextDecoder('utf-8', { fatal: true });
/** The key, or an escape that could spell it. */
const SUSPICIOUS = /__proto__|\\u/;

export function parseJsonBody(bytes: Buffer): unknown {
  const value = parse(decode(bytes));
  if (isTooDeep(value)) throw bad(`the body is nested deeper than ${MAX_DEPTH} levels`);
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
    const value: unknown = JSON.parse(text);
    // Looking at every key costs more than all the rest, so only where it might find something.
    return SUSPICIOUS.test(text) ? JSON.parse(text, refusePrototypeKeys) : value;
  } catch (error) {
    if (error instanceof OrchdError) throw error;
    throw bad('the body is not valid JSON');
  }
}

function refusePrototypeKeys(key: string, value: unknown): unknown {
  if (key === '__proto__') throw bad('the key "__proto__" is not allowed');
  return value;
}

const bad = (message: string): OrchdError => new OrchdError('INVALID_PARAMS', message);
