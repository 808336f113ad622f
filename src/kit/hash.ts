import { createHash } from 'node:crypto';
import { writeInSlices } from './json-writer.ts';
import type { Sliced, SliceMeter } from './slices.ts';

/** SHA-256 of a value's JSON form, independent of the order of its keys. */
export function stableHash(value: unknown): string {
  const plain: unknown = JSON.parse(JSON.stringify(value) ?? 'null');
  return createHash('sha256').update(canonical(plain)).digest('hex');
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const record = value as Record<string, unknown>;
  const fields = Object.keys(record).sort();
  return `{${fields.map((key) => `${JSON.stringify(key)}:${canonical(record[key])}`).join(',')}}`;
}

/** The same hash, computed in slices, of a value that JSON.parse could have returned. */
export function* stableHashInSlices(value: unknown, meter: SliceMeter): Sliced<string> {
  const hash = createHash('sha256');
  yield* writeInSlices(value, { write: (part) => hash.update(part), sorted: true, meter });
  return hash.digest('hex');
}
