/**
 * Stores and reads bodies (payloads, results, states of waits): a small body is kept inline in its record, a large one as a
 * blob, which may be composed of other blobs. The texts of a session are sealed with its key (seals.ts).
 */
import type { KeyOwner } from '../core/ports/keys.ts';
import type { BlobOwner, Store } from '../core/ports/store.ts';
import type { ByteRoom } from '../kit/byte-room.ts';
import { sealedBytes } from '../kit/seal.ts';
import { type BlobRef, type Body, INLINE_BODY_BYTES } from '../model/body.ts';
import {
  type BlobPart,
  type Composition,
  composedText,
  compositionIn,
  isComposed,
  isSlice,
  type KnownText,
  type Part,
  refsIn,
  valuesText,
  withKnown,
} from '../model/composed.ts';
import { OrchdError } from '../model/errors.ts';
import { type AskRecord, scoped, uidOf } from '../model/records.ts';
import { LargeBodies } from './large-bodies.ts';
import { RecentTexts } from './recent-texts.ts';
import { type SealEnv, Seals, unlessErased } from './seals.ts';

/** Whose text a body is; that of a session is sealed. */
export interface TextOwner {
  readonly tenant: string;
  readonly session: string | undefined;
}

export interface BodyOwner extends TextOwner {
  /** The uid of the topmost job. */
  readonly root: string;
}

export function ownerOf({ tenant, id, ancestors, spec }: AskRecord): BodyOwner {
  return { tenant, session: spec.session_id, root: uidOf(tenant, ancestors?.[0] ?? id) };
}

const blobOwner = ({ tenant, session, root }: BodyOwner): BlobOwner =>
  session === undefined ? { job: root } : { session: scoped(tenant, session) };

const isComposedBytes = (bytes: Buffer): boolean => isComposed(bytes.toString('latin1', 0, 32));

/** Text between parts that says nothing: punctuation, and the name of a field that is a list. */
const isStructure = /^[[\]{},]*(?:"\w{1,64}":\[)?$/;

/** A list of more blobs than this is written anew as one before it grows: each of them is read for its text. */
const MAX_LINKS = 1024;

/** The strings of a larger result are not looked for in what is said next: that would take the loop too long. */
const MAX_KNOWN_BYTES = 2 ** 18;

export class Bodies {
  readonly #store: Store;
  /** For readers outside of this process. */
  readonly large: LargeBodies;
  /** The texts of parts: each step of a run reads the conversation so far. */
  readonly #recent = new RecentTexts();
  /** For texts that are no bodies. */
  readonly seals: Seals;

  /** `room`: the memory for large bodies that are being sent. */
  constructor(store: Store, env: SealEnv, room: ByteRoom) {
    this.#store = store;
    this.seals = new Seals(store.keys, env);
    this.large = new LargeBodies(room, (ref) => this.#read(ref));
  }

  /** `owner` with a root: that of a body which belongs to no job. */
  async store(text: string, owner: TextOwner | BodyOwner): Promise<Body> {
    const { clears } = this.#recent;
    const sealed = await this.#sealed(text, owner);
    if (this.fitsInline(text, owner)) return sealed;
    const ref = await this.#put(sealed, 'root' in owner ? { owner: blobOwner(owner) } : undefined);
    this.#recent.add(ref, text, clears);
    return ref;
  }

  /** Stores an inline text as a blob; one that is sealed stays so. */
  storeSealed(text: string, owner: BodyOwner): Promise<BlobRef> {
    return this.#put(text, { owner: blobOwner(owner) });
  }

  /** Whether a body is small enough to be kept in its record. */
  fitsInline(text: string, { session }: TextOwner): boolean {
    if (text.length > INLINE_BODY_BYTES) return false;
    const bytes = Buffer.byteLength(text);
    return (session === undefined ? bytes : sealedBytes(bytes)) <= INLINE_BODY_BYTES;
  }

  /** The body, if it can be kept in its record and nothing must be read to seal it. */
  inline(text: string, owner: TextOwner): string | undefined {
    const { tenant, session } = owner;
    if (!this.fitsInline(text, owner)) return undefined;
    return session === undefined ? text : this.seals.sealNow(text, { tenant, session });
  }

  compose(composition: Composition, owner: TextOwner): Promise<Body> {
    return this.#compose(composition, owner);
  }

  async #compose({ parts, rest }: Composition, of: TextOwner, owner?: BlobOwner): Promise<BlobRef> {
    const sealed = { parts: [...parts], rest: await this.#sealed(rest, of) };
    for (const [at, part] of parts.entries())
      if (typeof part === 'string' && !isStructure.test(part))
        sealed.parts[at] = await this.#sealed(part, of);
    return this.#put(composedText(sealed), { needs: refsIn(sealed), ...(owner && { owner }) });
  }

  /**
   * Adds JSON values to a list that is stored as a blob; `list` is undefined for the first ones. `known`: blobs of the same
   * owner whose texts the values may say again.
   */
  async append(
    list: BlobPart | undefined,
    values: readonly unknown[],
    owner: BodyOwner,
    known: readonly BlobRef[] = [],
  ): Promise<BlobPart> {
    const { clears } = this.#recent;
    const added = valuesText(values);
    const said = withKnown(added, await Promise.all(known.map((ref) => this.#knownText(ref))));
    if (!list && said.parts.length === 0) return this.#part(added, values.length, owner);
    const text = list ? `${await this.#textOf(list.ref)},${added}` : added;
    const count = (list?.values ?? 0) + values.length;
    const isWrittenAnew = list && (list.links >= MAX_LINKS || this.#store.isScattered(list.ref));
    if (isWrittenAnew) return this.#part(text, count, owner);
    const before: readonly Part[] = list ? [list, ','] : [];
    const ref = await this.#compose({ ...said, parts: [...before, ...said.parts] }, owner, blobOwner(owner));
    this.#recent.add(ref, text, clears);
    return { ref, values: count, links: (list?.links ?? 0) + 1 + said.parts.filter(isSlice).length };
  }

  async #knownText(ref: BlobRef): Promise<KnownText> {
    return { ref, text: ref.bytes > MAX_KNOWN_BYTES ? '' : await this.#textOf(ref) };
  }

  /** The composition of a body; undefined for one that is not composed. */
  async composition(body: Body): Promise<Composition | undefined> {
    return typeof body === 'string' ? undefined : compositionIn(await this.#rawText(body));
  }

  /**
   * The texts of a composed body and the stored lists between them, in order; undefined for one that is not composed. Throws
   * as `read` does.
   */
  async opened(body: Body): Promise<readonly (string | BlobPart)[] | undefined> {
    const found = await this.composition(body);
    if (!found) return undefined;
    const rest = await this.seals.open(found.rest);
    const isList = (part: Part): part is BlobPart => typeof part === 'object' && !isSlice(part);
    const parts = found.parts.map((part) => (isList(part) ? part : this.#partText(part)));
    return [...(await Promise.all(parts)), rest];
  }

  /**
   * Throws a permanent error only if the blob is damaged or missing, or its session was deleted; any other failure is
   * STORE_BUSY, which is retriable.
   */
  async read(body: Body): Promise<string> {
    return typeof body === 'string' ? this.seals.open(body) : this.#text(await this.#rawText(body));
  }

  /** The same; undefined where the session of the body was deleted. */
  readable(body: Body): Promise<string | undefined> {
    return unlessErased(this.read(body));
  }

  /** Whether nobody can read the body any more because its session was deleted. */
  async isErased(body: Body): Promise<boolean> {
    if (typeof body === 'string') return this.seals.isErased(body);
    const bytes = await this.#readBlob(body);
    const { rest } = (isComposedBytes(bytes) && compositionIn(bytes.toString())) || { rest: bytes };
    return this.seals.isErased(rest);
  }

  /** Drops the key of a session, without which nobody can read its texts. */
  async erase(owner: KeyOwner): Promise<void> {
    await this.seals.drop(owner);
    this.#recent.clear();
  }

  async #part(text: string, values: number, owner: BodyOwner): Promise<BlobPart> {
    const { clears } = this.#recent;
    const ref = await this.#put(await this.#sealed(text, owner), { owner: blobOwner(owner) });
    this.#recent.add(ref, text, clears);
    return { ref, values, links: 1 };
  }

  async #textOf(ref: BlobRef): Promise<string> {
    const known = this.#recent.get(ref);
    if (known !== undefined) return known;
    const { clears } = this.#recent;
    const text = await this.#text(await this.#rawText(ref));
    this.#recent.add(ref, text, clears);
    return text;
  }

  async #text(raw: string): Promise<string> {
    const composition = compositionIn(raw);
    if (!composition) return this.seals.open(raw);
    const texts: string[] = [];
    // Each text is sealed by itself. The rest first: of a deleted session it says so, while the parts may be gone.
    const rest = await this.seals.open(composition.rest);
    for (const part of composition.parts) texts.push(await this.#partText(part));
    return texts.join('') + rest;
  }

  async #partText(part: Part): Promise<string> {
    if (typeof part === 'string') return this.seals.open(part);
    if (!isSlice(part)) return this.#textOf(part.ref);
    const { slice, from, to } = part;
    const text = typeof slice === 'string' ? await this.seals.open(slice) : await this.#textOf(slice);
    return text.slice(from, to);
  }

  async #sealed(text: string, { tenant, session }: TextOwner): Promise<string> {
    return session === undefined ? text : this.seals.seal(text, { tenant, session });
  }

  async #rawText(ref: BlobRef): Promise<string> {
    return (await this.#readBlob(ref)).toString();
  }

  async #read(ref: BlobRef): Promise<Buffer> {
    const bytes = await this.#readBlob(ref);
    if (isComposedBytes(bytes)) return Buffer.from(await this.read(ref));
    return this.seals.openBytes(bytes);
  }

  async #readBlob(ref: BlobRef): Promise<Buffer> {
    try {
      return await this.#store.readBlob(ref);
    } catch (error) {
      if (error instanceof OrchdError) throw error;
      throw new OrchdError('STORE_BUSY', 'a body cannot be read now', {}, { cause: error });
    }
  }

  async #put(text: string, ties?: Parameters<Store['putBlob']>[1]): Promise<BlobRef> {
    try {
      return await this.#store.putBlob(text, ties);
    } catch (error) {
      if (error instanceof OrchdError) throw error;
      throw new OrchdError('STORE_FAILED', undefined, {}, { cause: error });
    }
  }
}
