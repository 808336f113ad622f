/** The configuration as text for people: YAML with every key, where its value comes from, and no secrets. */
import { IsArray, IsObject, IsRecord, type TObject, type TSchema } from 'typebox';
import { stringify } from 'yaml';
import type { Path } from './leaves.ts';
import { ConfigSchema, type RawConfig } from './schema.ts';

const REDACTED = '[redacted]';

/** The configuration with a placeholder for every value whose schema is marked as `secret`. */
export const withoutSecrets = (raw: RawConfig): RawConfig => redact(ConfigSchema, raw) as RawConfig;

function redact(schema: TSchema, value: unknown): unknown {
  if ((schema as { secret?: boolean }).secret === true) return value === '' ? '' : REDACTED;
  if (Array.isArray(value)) return IsArray(schema) ? value.map((each) => redact(schema.items, each)) : value;
  if (typeof value !== 'object' || value === null) return value;
  const schemaOf = (key: string): TSchema | undefined =>
    IsObject(schema)
      ? schema.properties[key]
      : IsRecord(schema)
        ? Object.values(schema.patternProperties)[0]
        : undefined;
  const entries = Object.entries(value).map(([key, each]) => {
    const inner = schemaOf(key);
    return [key, inner ? redact(inner, each) : each];
  });
  return Object.fromEntries(entries);
}

/** `origins`: where each value that is not a default was set, by its path `a.b.c`. */
export function configYaml(raw: RawConfig, origins: ReadonlyMap<string, string>): string {
  return sectionLines(ConfigSchema, withoutSecrets(raw), [], origins).join('\n');
}

function sectionLines(
  schema: TObject,
  section: Readonly<Record<string, unknown>>,
  path: Path,
  origins: ReadonlyMap<string, string>,
): string[] {
  const indent = '  '.repeat(path.length);
  return Object.entries(schema.properties).flatMap(([key, child]) => {
    const inner = [...path, key];
    const value = section[key];
    if (IsObject(child))
      return [`${indent}${key}:`, ...sectionLines(child, value as Record<string, unknown>, inner, origins)];
    const origin = origins.get(inner.join('.'));
    // A key that has an effect as soon as it is set is not set by a configuration that was printed.
    const mark = origin === undefined && (child as { optIn?: boolean }).optIn === true ? '# ' : '';
    // On one line, so that the comment stands beside the value.
    const text = stringify(value, { collectionStyle: 'flow', lineWidth: 0 }).trimEnd();
    return [`${indent}${mark}${key}: ${text}${origin === undefined ? '' : `  # ${origin}`}`];
  });
}
