/**
 * Sealed texts: AES-256-GCM under a key that is named by its id, with a fresh nonce for each. A sealed text begins as no
 * JSON text does, so it cannot be taken for one.
 *
 * `sealed:1:<id of the key>:<base64 of nonce, ciphertext and tag>`
 */
import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { Random } from './env/env.ts';
import { pieceEnd } from './json-writer.ts';
import { atOnce, type Sliced } from './slices.ts';

export interface SealKey {
  /** Says nothing about the key itself. */
  readonly id: string;
  /** KEY_BYTES bytes. */
  readonly key: Buffer;
}

export const KEY_BYTES = 32;
export const KEY_ID_BYTES = 16;

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const PREFIX = 'sealed:1:';
const PREFIX_BYTES = Buffer.from(PREFIX);
/** Characters, or bytes, of one slice: a few milliseconds of work. A multiple of four, which is a whole piece of base64. */
const SLICE_CHARS = 512 * 1024;
const HEAD = /^sealed:1:([A-Za-z0-9_-]{1,64}):/;
/** The prefix, the longest id and the colon behind it. */
const MAX_HEAD_BYTES = PREFIX.length + 65;

export function newKey(random: Random): SealKey {
  const id = Buffer.from(random.hex(KEY_ID_BYTES), 'hex').toString('base64url');
  return { id, key: Buffer.from(random.hex(KEY_BYTES), 'hex') };
}

export const isSealed = (text: string | Uint8Array): boolean =>
  typeof text === 'string'
    ? text.startsWith(PREFIX)
    : text.length >= PREFIX.length && PREFIX_BYTES.equals(text.subarray(0, PREFIX.length));

export const seal = (text: string, key: SealKey, random: Random): string =>
  atOnce(sealInSlices(text, key, random));

/** The text is sealed piece by piece: 16 MB at once would take 100 ms. */
export function* sealInSlices(text: string, { id, key }: SealKey, random: Random): Sliced<string> {
  const nonce = Buffer.from(random.hex(NONCE_BYTES), 'hex');
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  const pieces = [`${PREFIX}${id}:`];
  let bytes: Buffer = nonce;
  for (let start = 0; start < text.length; ) {
    const end = pieceEnd(text, start, SLICE_CHARS);
    bytes = Buffer.concat([bytes, cipher.update(text.slice(start, end), 'utf8')]);
    // Base64 has no padding in the middle: what is no multiple of three bytes goes with the next piece.
    const whole = bytes.length - (bytes.length % 3);
    pieces.push(bytes.toString('base64', 0, whole));
    bytes = bytes.subarray(whole);
    start = end;
    if (start < text.length) yield;
  }
  // GCM has no padding: final() returns nothing, and must be called before the tag is known.
  const end = cipher.final();
  pieces.push(Buffer.concat([bytes, end, cipher.getAuthTag()]).toString('base64'));
  return pieces.join('');
}

/** The number of bytes that a text of so many bytes has when it is sealed, with an id of newKey. */
export function sealedBytes(bytes: number): number {
  const id = Math.ceil((KEY_ID_BYTES * 4) / 3);
  return PREFIX.length + id + 1 + 4 * Math.ceil((NONCE_BYTES + bytes + TAG_BYTES) / 3);
}

/** The id of the key that opens a sealed text; undefined if it is damaged. */
export function keyIdOf(text: string | Buffer): string | undefined {
  const head = typeof text === 'string' ? text : text.toString('latin1', 0, MAX_HEAD_BYTES);
  return HEAD.exec(head)?.[1];
}

/** The bytes of the text in UTF-8; undefined where it was changed, or sealed with another key. */
export const unseal = (text: string | Buffer, key: Buffer): Buffer | undefined =>
  atOnce(unsealInSlices(text, key));

export function* unsealInSlices(text: string | Buffer, key: Buffer): Sliced<Buffer | undefined> {
  const bytes = yield* sealedPart(text);
  if (bytes === undefined || bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  const end = bytes.length - TAG_BYTES;
  decipher.setAuthTag(bytes.subarray(end));
  const pieces: Buffer[] = [];
  for (let start = NONCE_BYTES; start < end; start += SLICE_CHARS) {
    pieces.push(decipher.update(bytes.subarray(start, Math.min(start + SLICE_CHARS, end))));
    if (start + SLICE_CHARS < end) yield;
  }
  try {
    // Nothing that was opened is used before this: it tells whether the text is the one that was sealed.
    decipher.final();
    return Buffer.concat(pieces);
  } catch {
    return undefined;
  }
}

/** The sealed bytes behind the head of a sealed text, decoded. */
function* sealedPart(text: string | Buffer): Sliced<Buffer | undefined> {
  const id = keyIdOf(text);
  if (id === undefined) return undefined;
  const first = PREFIX.length + id.length + 1;
  const bytes = Buffer.allocUnsafe(Math.ceil(((text.length - first) * 3) / 4));
  let length = 0;
  for (let start = first; start < text.length; start += SLICE_CHARS) {
    const end = Math.min(start + SLICE_CHARS, text.length);
    const encoded = typeof text === 'string' ? text.slice(start, end) : text.toString('latin1', start, end);
    length += bytes.write(encoded, length, 'base64');
    if (end < text.length) yield;
  }
  return bytes.subarray(0, length);
}
