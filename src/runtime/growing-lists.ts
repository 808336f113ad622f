/**
 * Lists that only grow, such as the messages of a run: what a job keeps over a wait, and the payloads of the jobs below it,
 * name the stored list instead of repeating it (model/composed.ts). All of it stays in one text while that is small.
 */
import type { Body } from '../model/body.ts';
import type { BlobPart, Composition } from '../model/composed.ts';
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

/** Stores the state of a wait: the lists, then the fields of `restText`, which is the text of an object. */
export async function keepState(
  bodies: Bodies,
  {
    lists,
    restText,
    last,
    owner,
  }: { lists: Lists; restText: string; last: Body | undefined; owner: BodyOwner },
): Promise<KeptState> {
  const known = last === undefined ? undefined : await bodies.composition(last);
  if (!known) {
    const inline = bodies.inline(plainText(lists, restText));
    if (inline !== undefined) return { state: inline, stored: [] };
  }
  const stored: StoredList[] = [];
  const parts: Composition['parts'][number][] = [];
  for (const [name, values] of Object.entries(lists)) {
    const label = `"${name}":[`;
    parts.push(`${parts.length === 0 ? '{' : '],'}${label}`);
    const part = await grown(bodies, known && listIn(known, label), values, owner);
    if (!part) continue;
    parts.push(part);
    stored.push({ values, part });
  }
  return { state: await bodies.compose({ parts, rest: `]${fieldsAfter(restText)}` }), stored };
}

/** The payload of a job below, in which a stored list begins one of its fields; undefined where none does. */
export function composedPayload(payload: unknown, stored: readonly StoredList[]): Composition | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined;
  for (const [name, values] of Object.entries(payload)) {
    const list = Array.isArray(values) && stored.find((each) => beginsWith(values, each.values));
    if (!list) continue;
    const more = (values as unknown[]).slice(list.values.length).map((value) => `,${JSON.stringify(value)}`);
    const { [name]: _, ...others } = payload as Record<string, unknown>;
    const rest = `${more.join('')}]${fieldsAfter(JSON.stringify(others))}`;
    return { parts: [`{${JSON.stringify(name)}:[`, list.part], rest };
  }
  return undefined;
}

/** The same objects, not equal ones: they need not be compared. */
const beginsWith = (values: readonly unknown[], start: readonly unknown[]): boolean =>
  start.length > 0 && values.length >= start.length && start.every((value, at) => values[at] === value);

async function grown(
  bodies: Bodies,
  list: BlobPart | undefined,
  values: readonly unknown[],
  owner: BodyOwner,
): Promise<BlobPart | undefined> {
  const added = values.slice(list?.values ?? 0);
  return added.length === 0 ? list : bodies.append(list, added, owner);
}

/** The stored list behind the label of its field. */
function listIn({ parts }: Composition, label: string): BlobPart | undefined {
  const at = parts.findIndex((part) => typeof part === 'string' && part.endsWith(label));
  const part = at < 0 ? undefined : parts[at + 1];
  return typeof part === 'object' ? part : undefined;
}

function plainText(lists: Lists, restText: string): string {
  const fields = Object.entries(lists).map(([name, values]) => `"${name}":${JSON.stringify(values)}`);
  return `{${fields.join(',')}${fieldsAfter(restText)}`;
}

/** The fields of an object's text, to be written after others; with the brace at its end. */
const fieldsAfter = (objectText: string): string => (objectText === '{}' ? '}' : `,${objectText.slice(1)}`);
