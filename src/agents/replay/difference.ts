/** Where two values part, and how that reads: what a run asked for, and what its steps ask for when they are run again. */

export interface Difference {
  /** The place of the first difference, such as `payload.messages[2].content`. */
  readonly field: string;
  /** Short texts around the first difference; `nothing` for a value that is absent. */
  readonly recorded: string;
  readonly replayed: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** Objects that were found equal: the messages of a run are in all its later calls, and compared once. */
export type EqualPairs = WeakMap<object, object>;

/** The first difference of two JSON values; undefined for equal ones. The order of fields and absent ones do not count. */
export function firstDifference(
  recorded: unknown,
  replayed: unknown,
  field: string,
  equal: EqualPairs = new WeakMap(),
): Difference | undefined {
  if (recorded === replayed) return undefined;
  if (Array.isArray(recorded) && Array.isArray(replayed)) return inLists(recorded, replayed, field, equal);
  if (isFields(recorded) && isFields(replayed)) {
    if (equal.get(recorded) === replayed) return undefined;
    const found = inFields(recorded, replayed, field, equal);
    if (!found) equal.set(recorded, replayed);
    return found;
  }
  if (typeof recorded === 'string' && typeof replayed === 'string') return inTexts(recorded, replayed, field);
  return { field, recorded: shown(recorded), replayed: shown(replayed) };
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function inLists(
  recorded: readonly unknown[],
  replayed: readonly unknown[],
  field: string,
  equal: EqualPairs,
): Difference | undefined {
  const most = Math.max(recorded.length, replayed.length);
  for (let at = 0; at < most; at++) {
    const found = firstDifference(recorded[at], replayed[at], `${field}[${at}]`, equal);
    if (found) return found;
  }
  return undefined;
}

function inFields(
  recorded: Fields,
  replayed: Fields,
  field: string,
  equal: EqualPairs,
): Difference | undefined {
  for (const name of new Set([...Object.keys(recorded), ...Object.keys(replayed)])) {
    const found = firstDifference(
      recorded[name],
      replayed[name],
      field === '' ? name : `${field}.${name}`,
      equal,
    );
    if (found) return found;
  }
  return undefined;
}

/** Characters before and after the first difference of two texts that are shown. */
const BEFORE_CHARS = 30;
const AFTER_CHARS = 90;

function inTexts(recorded: string, replayed: string, field: string): Difference {
  let at = 0;
  while (at < recorded.length && recorded[at] === replayed[at]) at++;
  return { field, recorded: around(recorded, at), replayed: around(replayed, at) };
}

function around(text: string, at: number): string {
  const from = Math.max(0, at - BEFORE_CHARS);
  const to = Math.min(text.length, at + AFTER_CHARS);
  return JSON.stringify(`${from > 0 ? '…' : ''}${text.slice(from, to)}${to < text.length ? '…' : ''}`);
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length <= AFTER_CHARS ? text : `${text.slice(0, AFTER_CHARS)}…`;
}
