import { createHash } from 'node:crypto';

/** Of what the value is as JSON; the same for values that differ only in the order of their keys. */
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
