/** Reads jobs together with their large bodies, in pieces small enough for memory. */

import type { JobBundle } from '../../core/ports/store.ts';
import type { BlobRef, Body } from '../../model/body.ts';
import {
  type BlobPart,
  composedText,
  compositionIn,
  isComposed,
  isSlice,
  type Part,
} from '../../model/composed.ts';
import { keptBody, withKeptBody } from '../../model/kept-body.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { LoadedJob, LoadedSession, StoreContents } from './contents.ts';

/** A piece holds at most this many bytes of bodies, unless a single job has more. */
const PIECE_BODY_BYTES = 8 * 2 ** 20;

const storedBytes = (body: Body | undefined): number => (typeof body === 'object' ? body.bytes : 0);

/** Splits a page between jobs so that the bodies of a piece have at most `bodyBytes` together. */
export function piecesOf(page: readonly JobBundle[], bodyBytes = PIECE_BODY_BYTES): JobBundle[][] {
  const pieces: JobBundle[][] = [];
  let left = 0;
  for (const bundle of page) {
    const bytes = storedBytes(bundle.ask.payload) + storedBytes(keptBody(bundle.job));
    const piece = pieces.at(-1);
    if (piece && bytes <= left) piece.push(bundle);
    else pieces.push([bundle]);
    left = (piece && bytes <= left ? left : bodyBytes) - bytes;
  }
  return pieces;
}

export async function* loadedJobs(contents: StoreContents): AsyncGenerator<readonly LoadedJob[]> {
  for await (const page of contents.jobs()) {
    for (const piece of piecesOf(page)) {
      const loaded: LoadedJob[] = [];
      for (const bundle of piece) loaded.push(await load(contents, bundle));
      yield loaded;
    }
  }
}

/** Archived sessions with the texts of their bodies. */
export async function* loadedSessions(contents: StoreContents): AsyncGenerator<readonly LoadedSession[]> {
  for await (const page of contents.sessions()) {
    const loaded: LoadedSession[] = [];
    for (const record of page) loaded.push(await loadSession(contents, record));
    yield loaded;
  }
}

export async function loadSession(contents: StoreContents, record: SessionRecord): Promise<LoadedSession> {
  const { messages, metadata } = record;
  return {
    record,
    messages: messages && (await wholeBody(contents, messages.ref)),
    metadata: typeof metadata === 'object' ? await wholeBody(contents, metadata) : undefined,
  };
}

/** The session with its bodies replaced by those given; undefined keeps a body. */
export const withSessionBodies = (
  record: SessionRecord,
  messages: BlobRef | undefined,
  metadata: BlobRef | undefined,
): SessionRecord => ({
  ...record,
  ...(messages && record.messages && { messages: { ...record.messages, ref: messages } }),
  ...(metadata && { metadata }),
});

async function load(contents: StoreContents, bundle: JobBundle): Promise<LoadedJob> {
  const { payload } = bundle.ask;
  const kept = keptBody(bundle.job);
  return {
    bundle,
    payload: typeof payload === 'object' ? await wholeBody(contents, payload) : undefined,
    kept: typeof kept === 'object' ? await wholeBody(contents, kept) : undefined,
  };
}

/**
 * The text of a body that needs no other blob: references are valid in their own store only. The parts of a composed body
 * stay apart, since each may be sealed.
 */
async function wholeBody(contents: StoreContents, ref: BlobRef): Promise<string> {
  const text = await contents.readBody(ref);
  return isComposed(text) ? composedText({ parts: await textsOf(contents, text), rest: '' }) : text;
}

type TextPart = Exclude<Part, BlobPart>;

async function textsOf(contents: StoreContents, text: string): Promise<readonly TextPart[]> {
  const composition = compositionIn(text);
  if (!composition) return [text];
  const texts: TextPart[] = [];
  for (const part of composition.parts) {
    if (typeof part === 'string' || isSlice(part)) texts.push(await withoutBlob(contents, part));
    else texts.push(...(await textsOf(contents, await contents.readBody(part.ref))));
  }
  return [...texts, composition.rest];
}

async function withoutBlob(contents: StoreContents, part: TextPart): Promise<TextPart> {
  if (typeof part === 'string' || typeof part.slice === 'string') return part;
  return { ...part, slice: await contents.readBody(part.slice) };
}

/** The job with its bodies replaced by those given, which are references of the target; undefined keeps a body. */
export function withBodies(bundle: JobBundle, payload: Body | undefined, kept: Body | undefined): JobBundle {
  const { ask, job } = bundle;
  return {
    ...bundle,
    ask: payload === undefined ? ask : { ...ask, payload },
    job: kept === undefined ? job : withKeptBody(job, kept),
  };
}
