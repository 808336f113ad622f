/**
 * The keys of sessions in a file of their own, beside the log and never in it (docs/decisions/0035). Only the places of
 * the keys are in memory.
 *
 * K1  A key is handed out only after the datasync that covers its slot.
 * K2  A dropped key is overwritten with zeros in its place, and gone only after the datasync that covers that.
 * K3  A slot that is neither a key nor free is overwritten at the next opening: it may be what is left of a dropped key.
 */
import { dirname } from 'node:path';
import {
  type KeyOwner,
  type KeyOwners,
  MAX_KEYS,
  type SessionKey,
  type SessionKeys,
} from '../../core/ports/keys.ts';
import type { DiskFile, Env } from '../../kit/env/env.ts';
import { newKey, type SealKey } from '../../kit/seal.ts';
import { OrchdError } from '../../model/errors.ts';
import { isFull } from '../disk-failure.ts';
import { decodeSlot, encodeSlot, FREE_SLOT, ownerName, readSlots, SLOT_BYTES } from './key-slots.ts';

interface Write {
  readonly slot: number;
  readonly bytes: Buffer;
  readonly done: () => void;
  readonly fail: (error: Error) => void;
}

export interface KeyFileEvents {
  /** No key can be written any more. */
  failed(error: Error): void;
  warn(message: string): void;
}

export class KeyFile implements SessionKeys {
  readonly #env: Pick<Env, 'disk' | 'random'>;
  readonly #path: string;
  readonly #events: KeyFileEvents;
  /** The id of each key, by the name of its owner. */
  readonly #byOwner = new Map<string, string>();
  /** The slot of each key, by its id. */
  readonly #slots = new Map<string, number>();
  /** Slots without a key, below `#end`. */
  readonly #free: number[] = [];
  /** The number of slots of the file. */
  #end = 0;
  /** Keys that are being made and not durable yet, by owner. */
  readonly #making = new Map<string, Promise<SealKey>>();
  #writes: Write[] = [];
  #working: Promise<void> | undefined;
  /** The keys that are being dropped, by owner. */
  readonly #dropping = new Map<string, Promise<void>>();
  #file: Promise<DiskFile> | undefined;
  #failure: Error | undefined;
  #isOpen = false;

  constructor(env: Pick<Env, 'disk' | 'random'>, path: string, events: KeyFileEvents) {
    this.#env = env;
    this.#path = path;
    this.#events = events;
  }

  /** The file is made with the first key. */
  async open(): Promise<void> {
    const damaged: number[] = [];
    for await (const slot of readSlots(this.#env.disk, this.#path)) {
      const at = this.#end++;
      if (typeof slot === 'object') this.#add(slot, at);
      else this.#free.push(at);
      if (slot === 'damaged') damaged.push(at);
    }
    this.#isOpen = true;
    if (damaged.length === 0) return;
    await Promise.all(damaged.map((slot) => this.#write(slot, FREE_SLOT))).catch((error: OrchdError) => {
      // On a full disk a slot that is cut short cannot be completed; a later key overwrites it.
      if (error.code !== 'STORE_FULL') throw error;
    });
    this.#events.warn(
      `${damaged.length} damaged keys of sessions were removed: no key, or one that was being dropped`,
    );
  }

  async obtain(owner: KeyOwner): Promise<SealKey> {
    const name = ownerName(owner);
    const id = this.#byOwner.get(name);
    if (id !== undefined) {
      const key = await this.find(id);
      // It was dropped while it was read.
      return key ? { id, key } : this.obtain(owner);
    }
    const known = this.#making.get(name);
    if (known !== undefined) return known;
    const making = this.#make(owner, name).finally(() => this.#making.delete(name));
    this.#making.set(name, making);
    return making;
  }

  async find(id: string): Promise<Buffer | undefined> {
    const slot = this.#slots.get(id);
    if (slot === undefined) return undefined;
    const file = await this.#opened();
    const found = decodeSlot(await file.read(slot * SLOT_BYTES, SLOT_BYTES));
    // The slot may have got another key while it was read.
    if (typeof found === 'object' && found.id === id) return this.#slots.has(id) ? found.key : undefined;
    if (!this.#slots.has(id)) return undefined;
    throw new OrchdError('STORE_CORRUPT', `the key in slot ${slot} of the keys of sessions is damaged`);
  }

  async drop(owner: KeyOwner): Promise<void> {
    const name = ownerName(owner);
    await this.#making.get(name)?.catch(() => undefined);
    await this.#dropping.get(name);
    const id = this.#byOwner.get(name);
    const slot = id === undefined ? undefined : this.#slots.get(id);
    if (id === undefined || slot === undefined) return;
    // From here on nobody finds the key, and the session may get another one.
    this.#byOwner.delete(name);
    this.#slots.delete(id);
    const dropping = this.#write(slot, FREE_SLOT).finally(() => this.#dropping.delete(name));
    this.#dropping.set(name, dropping);
    await dropping;
    this.#free.push(slot);
  }

  async owners(after: number, limit: number): Promise<KeyOwners> {
    const left = Math.min(limit, this.#end - after);
    if (left <= 0) return { owners: [], next: undefined };
    const bytes = await (await this.#opened()).read(after * SLOT_BYTES, left * SLOT_BYTES);
    const owners: KeyOwner[] = [];
    for (let at = 0; at < bytes.length; at += SLOT_BYTES) {
      const slot = decodeSlot(bytes.subarray(at, at + SLOT_BYTES));
      if (typeof slot === 'object' && this.#slots.has(slot.id))
        owners.push({ tenant: slot.tenant, session: slot.session });
    }
    const next = after + left;
    return { owners, next: next < this.#end ? next : undefined };
  }

  /** For a move from another store: the key keeps its id, which sealed texts name. */
  async put(key: SessionKey): Promise<void> {
    await this.drop(key);
    const bytes = encodeSlot(key);
    if (!bytes) throw nameTooLong();
    const slot = this.#take();
    await this.#write(slot, bytes);
    this.#add(key, slot);
  }

  /** Waits for the writes under way: once the folder's lock is released another process may write to the file. */
  async close(): Promise<void> {
    this.#isOpen = false;
    await this.#working;
    const file = this.#file;
    this.#file = undefined;
    await file?.then((opened) => opened.close()).catch(() => undefined);
  }

  #add({ id, tenant, session }: SessionKey, slot: number): void {
    this.#byOwner.set(ownerName({ tenant, session }), id);
    this.#slots.set(id, slot);
  }

  #take(): number {
    return this.#free.pop() ?? this.#end++;
  }

  async #make(owner: KeyOwner, name: string): Promise<SealKey> {
    if (this.#byOwner.size + this.#making.size >= MAX_KEYS)
      throw new OrchdError('STORE_BUSY', `the store has the keys of ${MAX_KEYS} sessions, as many as it may`);
    const key = { ...newKey(this.#env.random), ...owner };
    const bytes = encodeSlot(key);
    if (!bytes) throw nameTooLong();
    const slot = this.#take();
    try {
      await this.#write(slot, bytes);
    } catch (error) {
      this.#free.push(slot);
      throw error;
    }
    this.#byOwner.set(name, key.id);
    this.#slots.set(key.id, slot);
    return { id: key.id, key: key.key };
  }

  #write(slot: number, bytes: Buffer): Promise<void> {
    if (this.#failure)
      return Promise.reject(new OrchdError('STORE_FAILED', undefined, {}, { cause: this.#failure }));
    // While this store is not open, another process may hold the folder and write to it.
    if (!this.#isOpen) return Promise.reject(new OrchdError('SHUTTING_DOWN'));
    return new Promise((done, fail) => {
      this.#writes.push({ slot, bytes, done, fail });
      this.#working ??= this.#work();
    });
  }

  /** Keys that are asked for during a sync share the next one. */
  async #work(): Promise<void> {
    while (this.#writes.length > 0) {
      const batch = this.#writes;
      this.#writes = [];
      try {
        const file = await this.#opened();
        for (const { slot, bytes } of batch) await file.write(slot * SLOT_BYTES, bytes);
        await file.datasync();
        for (const { done } of batch) done();
      } catch (error) {
        const failure = this.#failureOf(error as Error);
        for (const { fail } of batch) fail(failure);
      }
    }
    this.#working = undefined;
  }

  /** A full disk fails only these keys; any other failure stops the writer for good, since a sync is never retried. */
  #failureOf(error: Error): Error {
    if (isFull(error)) return new OrchdError('STORE_FULL', undefined, {}, { cause: error });
    this.#failure = error;
    this.#events.failed(error);
    return new OrchdError('STORE_FAILED', undefined, {}, { cause: error });
  }

  #opened(): Promise<DiskFile> {
    if (!this.#isOpen) return Promise.reject(new OrchdError('SHUTTING_DOWN'));
    if (this.#file !== undefined) return this.#file;
    const opening = this.#openFile();
    this.#file = opening;
    opening.catch(() => {
      if (this.#file === opening) this.#file = undefined;
    });
    return opening;
  }

  async #openFile(): Promise<DiskFile> {
    const { disk } = this.#env;
    const isThere = (await disk.stat(this.#path)) !== undefined;
    const file = await disk.open(this.#path, isThere ? 'write' : 'create');
    if (!isThere) await disk.syncFolder(dirname(this.#path));
    return file;
  }
}

const nameTooLong = (): OrchdError =>
  new OrchdError('INVALID_PARAMS', 'the id of the session is too long', { field: 'session_id' });
