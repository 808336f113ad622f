import { createHash, hash } from 'node:crypto';
import { writeInSlices } from './json-writer.ts';
import type { Sliced, SliceMeter } from './slices.ts';

/** SHA-256 of a value's JSON form, independent of the order of its keys; and of a text, as it is. */
export function stableHash(value: unknown, text = ''): string {
  const form = canonical(value) ?? canonical(JSON.parse(JSON.stringify(value) ?? 'null')) ?? '';
  return hash('sha256', form + text);
}

/** Undefined for a value with parts that JSON has another form for, such as a Date, or none. */
function canonical(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return Array.isArray(value) ? canonicalList(value) : canonicalObject(value as Record<string, unknown>);
}

function canonicalList(values: readonly unknown[]): string | undefined {
  let text = '[';
  for (const [at, value] of values.entries()) {
    const part = canonical(value);
    if (part === undefined) return undefined;
    text += at === 0 ? part : `,${part}`;
  }
  return `${text}]`;
}

function canonicalObject(fields: Readonly<Record<string, unknown>>): string | undefined {
  if (Object.getPrototypeOf(fields) !== Object.prototype || 'toJSON' in fields) return undefined;
  let text = '{';
  for (const key of Object.keys(fields).sort()) {
    const value = fields[key];
    if (value === undefined) continue;
    const part = canonical(value);
    if (part === undefined) return undefined;
    text += `${text === '{' ? '' : ','}${JSON.stringify(key)}:${part}`;
  }
  return `${text}}`;
}

/** The same hash, computed in slices, of a value that JSON.parse could have returned. */
export function* stableHashInSlices(value: unknown, meter: SliceMeter): Sliced<string> {
  const sha = createHash('sha256');
  yield* writeInSlices(value, { write: (part) => sha.update(part), sorted: true, meter });
  return sha.digest('hex');
}
