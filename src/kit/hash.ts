import { createHash } from 'node:crypto';

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
