/** Seals and opens the texts of sessions, with the keys of the store (docs/decisions/0035). Keys in use are in memory. */
import { createHmac } from 'node:crypto';
import type { KeyOwner, SessionKeys } from '../core/ports/keys.ts';
import type { Env } from '../kit/env/env.ts';
import { isSealed, keyIdOf, type SealKey, seal, sealInSlices, unsealInSlices } from '../kit/seal.ts';
import { atOnce, inSlices, ONE_TURN_BYTES } from '../kit/slices.ts';
import { type ErrorInfo, errorInfo, OrchdError } from '../model/errors.ts';
import { scoped } from '../model/records.ts';

/** The most keys in memory. */
const MAX_RECENT = 5000;

/** A job is told only as much of an error: it is part of a record. */
const MAX_ERROR_CHARS = 2000;

export type SealEnv = Pick<Env, 'random' | 'timers'>;

export class Seals {
  readonly #keys: SessionKeys;
  readonly #env: SealEnv;
  /** Resolves when no deletion of the session is under way; undefined where none is. Set by erasures.ts. */
  whenErased: (owner: KeyOwner) => Promise<void> | undefined = () => undefined;
  /** By tenant and session, the least recently used first. */
  readonly #recent = new Map<string, SealKey>();
  /** By id; a key is in both maps, or only here if it was needed for reading. */
  readonly #byId = new Map<string, Buffer>();
  /** Grows when keys are dropped: a key that was asked for before is not kept in memory. */
  #drops = 0;

  constructor(keys: SessionKeys, env: SealEnv) {
    this.#keys = keys;
    this.#env = env;
  }

  /** A small text, at once if the key is in memory; else undefined. */
  sealNow(text: string, owner: KeyOwner): string | undefined {
    const key = this.#recentKey(owner);
    return key && seal(text, key, this.#env.random);
  }

  /** True while the key of the session is in memory, because a text was sealed with it lately. */
  isInUse({ tenant, session }: KeyOwner): boolean {
    return this.#recent.has(scoped(tenant, session));
  }

  async seal(text: string, owner: KeyOwner): Promise<string> {
    const { random, timers } = this.#env;
    const key = this.#recentKey(owner) ?? (await this.#obtain(owner));
    const sealing = sealInSlices(text, key, random);
    return text.length <= ONE_TURN_BYTES ? atOnce(sealing) : inSlices(sealing, timers);
  }

  /** A secret of the session for one purpose, which goes with its key. */
  async secretFor(purpose: string, owner: KeyOwner): Promise<string> {
    const { key } = this.#recentKey(owner) ?? (await this.#obtain(owner));
    return createHmac('sha256', key).update(purpose).digest('base64url');
  }

  /** The text itself if it is not sealed. Throws NOT_FOUND for good if the session was deleted. */
  async open(text: string): Promise<string> {
    return isSealed(text) ? (await this.#opened(text)).toString() : text;
  }

  /** Whether a text cannot be read any more because its session was deleted. */
  async isErased(text: string | Buffer): Promise<boolean> {
    const id = keyIdOf(text);
    return id !== undefined && (await unlessErased(this.#find(id))) === undefined;
  }

  async openBytes(bytes: Buffer): Promise<Buffer> {
    return isSealed(bytes) ? this.#opened(bytes) : bytes;
  }

  /** What an executor says about a failure may quote the session, so only the code is left to be read without the key. */
  async sealError({ message, ...error }: ErrorInfo, owner: KeyOwner): Promise<ErrorInfo> {
    const general = errorInfo(error.code).message;
    if (message === general) return { message, ...error };
    return { ...error, message: general, sealed: await this.seal(message.slice(0, MAX_ERROR_CHARS), owner) };
  }

  async openError({ sealed, ...error }: ErrorInfo): Promise<ErrorInfo> {
    if (sealed === undefined) return error;
    const message = await unlessErased(this.open(sealed));
    return message === undefined ? error : { ...error, message };
  }

  /** Forgets the key of a session, and drops it from the store. */
  async drop(owner: KeyOwner): Promise<void> {
    await this.#keys.drop(owner);
    this.#drops++;
    this.#recent.clear();
    this.#byId.clear();
  }

  /** The key of a session if it is in memory, and the session is not being deleted. */
  #recentKey(owner: KeyOwner): SealKey | undefined {
    const name = scoped(owner.tenant, owner.session);
    const key = this.#recent.get(name);
    if (!key || this.whenErased(owner) !== undefined) return undefined;
    this.#recent.delete(name);
    this.#recent.set(name, key);
    return key;
  }

  async #obtain(owner: KeyOwner): Promise<SealKey> {
    await this.whenErased(owner);
    const drops = this.#drops;
    const key = await this.#keys.obtain(owner);
    if (drops !== this.#drops) return key;
    keep(this.#recent, scoped(owner.tenant, owner.session), key);
    keep(this.#byId, key.id, key.key);
    return key;
  }

  async #opened(text: string | Buffer): Promise<Buffer> {
    const id = keyIdOf(text);
    const key = id === undefined ? undefined : await this.#find(id);
    const opened = key && (await this.#unsealed(text, key));
    if (opened) return opened;
    throw new OrchdError('STORE_CORRUPT', 'a sealed body is damaged');
  }

  async #unsealed(text: string | Buffer, key: Buffer): Promise<Buffer | undefined> {
    const opening = unsealInSlices(text, key);
    return text.length <= ONE_TURN_BYTES ? atOnce(opening) : inSlices(opening, this.#env.timers);
  }

  async #find(id: string): Promise<Buffer> {
    const known = this.#byId.get(id);
    if (known) return known;
    const drops = this.#drops;
    const key = await this.#keys.find(id);
    if (!key) throw sessionDeleted();
    if (drops === this.#drops) keep(this.#byId, id, key);
    return key;
  }
}

function keep<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name);
  map.set(name, value);
  for (const oldest of map.keys()) {
    if (map.size <= MAX_RECENT) return;
    map.delete(oldest);
  }
}

const sessionDeleted = (): OrchdError =>
  new OrchdError('NOT_FOUND', 'the session was deleted, and with it the text of its jobs', {
    reason: 'session_deleted',
  });

/** The value; undefined where it cannot be read any more because its session was deleted. */
export async function unlessErased<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}

/** Whether a text cannot be read any more because its session was deleted. */
const isErased = (error: unknown): boolean =>
  error instanceof OrchdError && error.details.reason === 'session_deleted';
