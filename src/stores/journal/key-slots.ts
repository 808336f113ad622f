/**
 * The form of the file with the keys of sessions: slots of one size, each with one key, its id, its owner and a checksum.
 * A free slot is all zeros. A slot never crosses a sector, so a power loss leaves its old or its new content.
 */
import { crc32 } from 'node:zlib';
import type { KeyOwner, SessionKey } from '../../core/ports/keys.ts';
import type { Disk } from '../../kit/env/env.ts';
import { KEY_BYTES, KEY_ID_BYTES } from '../../kit/seal.ts';
import { scoped } from '../../model/records.ts';

export const SLOT_BYTES = 256;
/** Slots are read this many at a time. */
const READ_SLOTS = 4096;

const VERSION = 1;
const ID_AT = 1;
const KEY_AT = ID_AT + KEY_ID_BYTES;
const LENGTH_AT = KEY_AT + KEY_BYTES;
const OWNER_AT = LENGTH_AT + 1;
const CRC_AT = SLOT_BYTES - 4;
const MAX_OWNER_BYTES = CRC_AT - OWNER_AT;

export const FREE_SLOT: Buffer = Buffer.alloc(SLOT_BYTES);

/** The owner as one text; neither a tenant nor a session id has a line break. */
export const ownerName = ({ tenant, session }: KeyOwner): string => scoped(tenant, session);

export function ownerOf(name: string): KeyOwner {
  const at = name.indexOf('~');
  return { tenant: name.slice(0, at), session: name.slice(at + 1) };
}

/** Undefined where the owner's name does not fit. */
export function encodeSlot({ id, key, tenant, session }: SessionKey): Buffer | undefined {
  const owner = Buffer.from(ownerName({ tenant, session }));
  if (owner.length > MAX_OWNER_BYTES) return undefined;
  const slot = Buffer.alloc(SLOT_BYTES);
  slot[0] = VERSION;
  slot.set(Buffer.from(id, 'base64url'), ID_AT);
  slot.set(key, KEY_AT);
  slot[LENGTH_AT] = owner.length;
  slot.set(owner, OWNER_AT);
  slot.writeUInt32LE(crc32(slot.subarray(0, CRC_AT)), CRC_AT);
  return slot;
}

/** `free`: nothing was ever written, or the key was dropped. `damaged`: neither a key nor free. */
export function decodeSlot(slot: Buffer): SessionKey | 'free' | 'damaged' {
  if (slot.length === SLOT_BYTES && slot.equals(FREE_SLOT)) return 'free';
  const isWhole = slot.length === SLOT_BYTES && slot.readUInt32LE(CRC_AT) === crc32(slot.subarray(0, CRC_AT));
  if (!isWhole || slot[0] !== VERSION) return 'damaged';
  const owner = slot.toString('utf8', OWNER_AT, OWNER_AT + (slot[LENGTH_AT] ?? 0));
  const id = slot.toString('base64url', ID_AT, KEY_AT);
  return { id, key: Buffer.from(slot.subarray(KEY_AT, LENGTH_AT)), ...ownerOf(owner) };
}

/** Yields every slot of the file in order; a last one that is cut short is damaged. Nothing where there is no file. */
export async function* readSlots(disk: Disk, path: string): AsyncGenerator<SessionKey | 'free' | 'damaged'> {
  if (!(await disk.stat(path))) return;
  const file = await disk.open(path, 'read');
  try {
    const bytes = await file.size();
    for (let at = 0; at < bytes; at += READ_SLOTS * SLOT_BYTES) {
      const chunk = await file.read(at, Math.min(READ_SLOTS * SLOT_BYTES, bytes - at));
      for (let from = 0; from < chunk.length; from += SLOT_BYTES)
        yield decodeSlot(chunk.subarray(from, from + SLOT_BYTES));
    }
  } finally {
    await file.close();
  }
}
