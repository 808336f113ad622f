/**
 * Sealed texts: AES-256-GCM under a key that is named by its id, with a fresh nonce for each. A sealed text begins as no
 * JSON text does, so it cannot be taken for one.
 *
 * `sealed:1:<id of the key>:<base64 of nonce, ciphertext and tag>`
 */
import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { Random } from './env/env.ts';

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

export function seal(text: string, { id, key }: SealKey, random: Random): string {
  const nonce = Buffer.from(random.hex(NONCE_BYTES), 'hex');
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  const sealed = cipher.update(text, 'utf8');
  // GCM has no padding: final() returns nothing, and must be called before the tag is known.
  const end = cipher.final();
  return `${PREFIX}${id}:${Buffer.concat([nonce, sealed, end, cipher.getAuthTag()]).toString('base64')}`;
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
export function unseal(text: string | Buffer, key: Buffer): Buffer | undefined {
  const id = keyIdOf(text);
  if (id === undefined) return undefined;
  const start = PREFIX.length + id.length + 1;
  const encoded = typeof text === 'string' ? text.slice(start) : text.toString('latin1', start);
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
  const opened = decipher.update(bytes.subarray(NONCE_BYTES, bytes.length - TAG_BYTES));
  try {
    decipher.final();
    return opened;
  } catch {
    return undefined;
  }
}
