/**
 * Stores and reads bodies (payloads, results, states of waits): a small body is kept inline in its record, a large one as a
 * blob, which may be composed of other blobs.
 */
import type { BlobOwner, Store } from '../core/ports/store.ts';
import type { ByteRoom } from '../kit/byte-room.ts';
import { type BlobRef, type Body, INLINE_BODY_BYTES } from '../model/body.ts';
import {
  type BlobPart,
  type Composition,
  composedText,
  compositionIn,
  isComposed,
  refsIn,
} from '../model/composed.ts';
import { OrchdError } from '../model/errors.ts';
import { type AskRecord, scoped, uidOf } from '../model/records.ts';
import { LargeBodies } from './large-bodies.ts';
import { RecentTexts } from './recent-texts.ts';

/** Whose text a body is. */
export interface BodyOwner {
  readonly tenant: string;
  readonly session: string | undefined;
  /** The uid of the topmost job. */
  readonly root: string;
}

export function ownerOf({ tenant, id, ancestors, spec }: AskRecord): BodyOwner {
  return { tenant, session: spec.session_id, root: uidOf(tenant, ancestors?.[0] ?? id) };
}

const blobOwner = ({ tenant, session, root }: BodyOwner): BlobOwner =>
  session === undefined ? { job: root } : { session: scoped(tenant, session) };

/** A list of more blobs than this is written anew as one before it grows: each of them is read for its text. */
const MAX_LINKS = 128;

export class Bodies {
  readonly #store: Store;
  /** For readers outside of this process. */
  readonly large: LargeBodies;
  /** The texts of parts: each step of a run reads the conversation so far. */
  readonly #recent = new RecentTexts();

  /** `room`: the memory for large bodies that are being sent. */
  constructor(store: Store, room: ByteRoom) {
    this.#store = store;
    this.large = new LargeBodies(room, (ref) => this.#read(ref));
  }

  /** `owner`: that of a body which belongs to no job. */
  async store(text: string, owner?: BodyOwner): Promise<Body> {
    return this.inline(text) ?? (await this.#put(text, owner && { owner: blobOwner(owner) }));
  }

  /** The body itself if it is small enough to be kept inline. */
  inline(text: string): Body | undefined {
    const fits = text.length <= INLINE_BODY_BYTES && Buffer.byteLength(text) <= INLINE_BODY_BYTES;
    return fits ? text : undefined;
  }

  compose(composition: Composition): Promise<Body> {
    return this.#put(composedText(composition), { needs: refsIn(composition) });
  }

  /** Adds JSON values to a list that is stored as a blob; `list` is undefined for the first ones. */
  async append(list: BlobPart | undefined, values: readonly unknown[], owner: BodyOwner): Promise<BlobPart> {
    const added = values.map((value) => JSON.stringify(value)).join(',');
    if (!list) return this.#part(added, values.length, owner);
    const text = `${await this.#textOf(list)},${added}`;
    const count = list.values + values.length;
    const isWrittenAnew = list.links >= MAX_LINKS || this.#store.isScattered(list.ref);
    if (isWrittenAnew) return this.#part(text, count, owner);
    const ties = { needs: [list.ref], owner: blobOwner(owner) };
    const ref = await this.#put(composedText({ parts: [list, ','], rest: added }), ties);
    this.#recent.add(ref, text);
    return { ref, values: count, links: list.links + 1 };
  }

  /** The composition of a body; undefined for one that is not composed. */
  async composition(body: Body): Promise<Composition | undefined> {
    return typeof body === 'string' ? undefined : compositionIn(await this.#rawText(body));
  }

  /**
   * Throws a permanent error only if the blob is damaged or missing; any other failure is STORE_BUSY, which is
   * retriable.
   */
  async read(body: Body): Promise<string> {
    return typeof body === 'string' ? body : this.#text(await this.#rawText(body));
  }

  async #part(text: string, values: number, owner: BodyOwner): Promise<BlobPart> {
    const ref = await this.#put(text, { owner: blobOwner(owner) });
    this.#recent.add(ref, text);
    return { ref, values, links: 1 };
  }

  async #textOf({ ref }: BlobPart): Promise<string> {
    const known = this.#recent.get(ref);
    if (known !== undefined) return known;
    const text = await this.#text(await this.#rawText(ref));
    this.#recent.add(ref, text);
    return text;
  }

  async #text(raw: string): Promise<string> {
    const composition = compositionIn(raw);
    if (!composition) return raw;
    const texts: string[] = [];
    for (const part of composition.parts)
      texts.push(typeof part === 'string' ? part : await this.#textOf(part));
    return texts.join('') + composition.rest;
  }

  async #rawText(ref: BlobRef): Promise<string> {
    return (await this.#readBlob(ref)).toString();
  }

  async #read(ref: BlobRef): Promise<Buffer> {
    const bytes = await this.#readBlob(ref);
    return isComposed(bytes.toString('latin1', 0, 32)) ? Buffer.from(await this.read(ref)) : bytes;
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
