/**
 * Lists that only grow, such as the messages of a run: what a job keeps over a wait, and the payloads of the jobs below it,
 * name the stored list instead of repeating it (model/composed.ts). All of it stays in one text while that is small.
 */
import type { BlobRef, Body } from '../model/body.ts';
import { type BlobPart, type Composition, isSlice, type Part, valuesText } from '../model/composed.ts';
import { OrchdError } from '../model/errors.ts';
import type { Bodies, BodyOwner } from './bodies.ts';

/** Fields of the state of a wait whose values are lists that only grow. */
export type Lists = Readonly<Record<string, readonly unknown[]>>;

/** A list that is stored with all of its values. */
export interface StoredList {
  readonly values: readonly unknown[];
  readonly part: BlobPart;
}

export interface KeptState {
  readonly state: Body;
  readonly stored: readonly StoredList[];
}

export interface GrownState {
  readonly lists: Lists;
  /** The other fields of the state, as the text of an object. */
  readonly restText: string;
  /** The state of the wait before this one. */
  readonly last: Body | undefined;
  /** Lists whose first values are stored already, where there was no wait before. */
  readonly begun?: Readonly<Record<string, BlobPart>> | undefined;
  readonly owner: BodyOwner;
  /** Blobs whose texts the new values may say again. */
  readonly known?: readonly BlobRef[];
}

/** Stores the state of a wait: the lists, then the fields of `restText`, which is the text of an object. */
export async function keepState(
  bodies: Bodies,
  { lists, restText, last, begun, owner, known = [] }: GrownState,
): Promise<KeptState> {
  const former = last === undefined ? undefined : await bodies.composition(last);
  if (!former) {
    const text = plainText(lists, restText);
    if (bodies.fitsInline(text, owner)) return { state: await bodies.store(text, owner), stored: [] };
  }
  const stored: StoredList[] = [];
  const parts: Part[] = [];
  for (const [name, values] of Object.entries(lists)) {
    const label = labelOf(name);
    parts.push(`${parts.length === 0 ? '{' : '],'}${label}`);
    const stem = former ? listIn(former, label) : begun?.[name];
    const part = await grown(bodies, stem, values, owner, known);
    if (!part) continue;
    parts.push(part);
    stored.push({ values, part });
  }
  return { state: await bodies.compose({ parts, rest: `]${fieldsAfter(restText)}` }, owner), stored };
}

/** The payload of a job below, with fields that contain stored lists; undefined where none does. */
export function composedPayload(payload: unknown, stored: readonly StoredList[]): Composition | undefined {
  if (stored.length === 0 || typeof payload !== 'object' || payload === null) return undefined;
  const parts: Part[] = [];
  const others: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(payload)) {
    const pieces = Array.isArray(value) ? piecesOf(value, stored) : [];
    if (pieces.every((piece) => typeof piece === 'string')) others[name] = value;
    else parts.push(`${parts.length === 0 ? '{' : '],'}${JSON.stringify(name)}:[`, ...pieces);
  }
  if (parts.length === 0) return undefined;
  return { parts, rest: `]${fieldsAfter(JSON.stringify(others))}` };
}

/** The values of a list, with the stored lists that it contains as parts. */
function piecesOf(values: readonly unknown[], stored: readonly StoredList[]): Part[] {
  const pieces: Part[] = [];
  for (let at = 0; at < values.length; ) {
    const list = stored.find((each) => isAt(values, at, each.values));
    if (at > 0) pieces.push(',');
    pieces.push(list ? list.part : valuesText([values[at]]));
    at += list ? list.values.length : 1;
  }
  return pieces;
}

/** Whether `list` stands at this place: the same objects, not equal ones, which would have to be compared. */
const isAt = (values: readonly unknown[], at: number, list: readonly unknown[]): boolean =>
  list.length > 0 && list.every((value, nth) => values[at + nth] === value);

/**
 * The list with all of these values, of which `list` has the first ones stored; undefined for none. Throws INVALID_PARAMS
 * where there are fewer than are stored.
 */
export async function grown(
  bodies: Bodies,
  list: BlobPart | undefined,
  values: readonly unknown[],
  owner: BodyOwner,
  known: readonly BlobRef[] = [],
): Promise<BlobPart | undefined> {
  if (list && values.length < list.values)
    throw new OrchdError('INVALID_PARAMS', 'a list that only grows has fewer values than before');
  const added = values.slice(list?.values ?? 0);
  return added.length === 0 ? list : bodies.append(list, added, owner, known);
}

/** The list that was stored with the state of a wait; undefined where it is inside the state. */
export async function storedList(bodies: Bodies, state: Body, name: string): Promise<BlobPart | undefined> {
  const known = await bodies.composition(state);
  return known && listIn(known, labelOf(name));
}

const labelOf = (name: string): string => `"${name}":[`;

/** The stored list behind the label of its field. */
function listIn({ parts }: Composition, label: string): BlobPart | undefined {
  const at = parts.findIndex((part) => typeof part === 'string' && part.endsWith(label));
  const part = at < 0 ? undefined : parts[at + 1];
  return typeof part === 'object' && !isSlice(part) ? part : undefined;
}

/** The text of a state with its lists, which is small enough to be kept as one. */
export function plainText(lists: Lists, restText: string): string {
  const fields = Object.entries(lists).map(([name, values]) => `"${name}":[${valuesText(values)}]`);
  return `{${fields.join(',')}${fieldsAfter(restText)}`;
}

/** The fields of an object's text, to be written after others; with the brace at its end. */
const fieldsAfter = (objectText: string): string => (objectText === '{}' ? '}' : `,${objectText.slice(1)}`);
