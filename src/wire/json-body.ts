/** Reads a JSON body strictly: valid UTF-8, not too deep, no key that reaches into prototypes. */
import { OrchdError } from '../model/errors.ts';

const MAX_DEPTH = 64;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = new Set([0x7b, 0x5b]);
const CLOSE = new Set([0x7d, 0x5d]);

const strict = new TextDecoder('utf-8', { fatal: true });

export function parseJsonBody(bytes: Buffer): unknown {
  // Before parsing: the parser itself would go as deep as the text does.
  if (depthOf(bytes) > MAX_DEPTH) throw bad(`the body is nested deeper than ${MAX_DEPTH} levels`);
  let text: string;
  try {
    text = strict.decode(bytes);
  } catch {
    throw bad('the body is not valid UTF-8');
  }
  try {
    return JSON.parse(text, refusePrototypeKeys);
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

function depthOf(bytes: Buffer): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (inString) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (OPEN.has(byte)) deepest = Math.max(deepest, ++depth);
    else if (CLOSE.has(byte)) depth--;
  }
  return deepest;
}
