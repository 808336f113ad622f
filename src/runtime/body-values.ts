/**
 * Reads bodies as values. The payloads of a run's calls share the list of its messages, of which each call adds a few (decision
 * 36): a list is read and parsed once, however many bodies contain it.
 */
import type { Body } from '../model/body.ts';
import type { BlobPart } from '../model/composed.ts';
import type { Bodies } from './bodies.ts';

/** The values of stored lists that were, or are being, read, by the JSON text of the reference. */
export type KnownLists = Map<string, Promise<readonly unknown[]>>;

/** Throws as Bodies.read does. */
export async function bodyValue(bodies: Bodies, body: Body, known: KnownLists): Promise<unknown> {
  const composed = await bodies.opened(body);
  if (!composed) return JSON.parse(await bodies.read(body));
  const { text, mark, lists } = await marked(bodies, composed, known);
  const value = JSON.parse(text) as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [
      name,
      Array.isArray(field) ? expanded(field, mark, lists) : field,
    ]),
  );
}

function listValues(bodies: Bodies, part: BlobPart, known: KnownLists): Promise<readonly unknown[]> {
  const name = JSON.stringify(part.ref);
  const found = known.get(name) ?? readList(bodies, part, known);
  known.set(name, found);
  return found;
}

async function readList(bodies: Bodies, { ref }: BlobPart, known: KnownLists): Promise<readonly unknown[]> {
  const composed = await bodies.opened(ref);
  if (!composed) return JSON.parse(`[${await bodies.read(ref)}]`) as unknown[];
  const { text, mark, lists } = await marked(bodies, composed, known);
  return expanded(JSON.parse(`[${text}]`) as unknown[], mark, lists);
}

interface MarkedText {
  /** The text, with one string in the place of each stored list. */
  readonly text: string;
  readonly mark: string;
  readonly lists: readonly (readonly unknown[])[];
}

async function marked(
  bodies: Bodies,
  parts: readonly (string | BlobPart)[],
  known: KnownLists,
): Promise<MarkedText> {
  const own = parts.filter((part) => typeof part === 'string').join('');
  let mark = 'list';
  while (own.includes(mark)) mark += '-';
  const lists: (readonly unknown[])[] = [];
  let text = '';
  for (const part of parts) {
    if (typeof part === 'string') text += part;
    else {
      text += JSON.stringify(`${mark}${lists.length}`);
      lists.push(await listValues(bodies, part, known));
    }
  }
  return { text, mark, lists };
}

/** The values with those of a stored list in the place of its mark, which no other value is. */
function expanded(
  values: readonly unknown[],
  mark: string,
  lists: readonly (readonly unknown[])[],
): unknown[] {
  return values.flatMap((value) =>
    typeof value === 'string' && value.startsWith(mark)
      ? (lists[Number(value.slice(mark.length))] ?? [])
      : [value],
  );
}
