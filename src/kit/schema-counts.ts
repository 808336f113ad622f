/**
 * Compares the number of properties and items of a value with its schema, before any of them is looked at: checking a
 * pattern on each of 100,000 keys takes seconds, and their number alone shows that the value is wrong.
 */
import type { TSchema } from 'typebox';

/** A fault of a value, in the form in which typebox reports it. */
export interface SchemaFault {
  readonly keyword: string;
  readonly schemaPath: string;
  readonly instancePath: string;
  readonly message: string;
  readonly params?: {
    readonly additionalProperties?: readonly string[];
    readonly requiredProperties?: readonly string[];
    /** The expected type, or types, where `keyword` is `type`. */
    readonly type?: string | readonly string[];
    /** Where `keyword` is a bound of a number: `>=` and the like, and the bound. */
    readonly comparison?: string;
    readonly limit?: number | bigint;
    /** The expected value, where `keyword` is `const`. */
    readonly allowedValue?: unknown;
    /** The expected values, where `keyword` is `enum`. */
    readonly allowedValues?: readonly unknown[];
  };
}

/** The parts of a JSON schema that are read here. */
export interface ReadSchema {
  readonly type?: string;
  readonly anyOf?: readonly ReadSchema[];
  readonly properties?: Readonly<Record<string, ReadSchema>>;
  readonly patternProperties?: Readonly<Record<string, ReadSchema>>;
  readonly additionalProperties?: unknown;
  readonly maxProperties?: number;
  readonly items?: ReadSchema;
  readonly maxItems?: number;
}

/** The first fault of a value that has too many properties or items somewhere; undefined if their numbers are right. */
export type CountCheck = (value: unknown, instancePath: string) => SchemaFault | undefined;

/** No property of ours has a longer name; matching one of 16 MB with the patterns of a schema takes 170 ms. */
const MAX_NAME_CHARS = 1000;
const NO_NAMES: readonly string[] = [];
/** Unknown properties up to this number are left to the schema, which says more about each. */
const MAX_UNKNOWN = 16;
/** As many unknown properties are named in the fault. */
const MAX_NAMED = 5;

export const countCheck = (schema: TSchema): CountCheck => compiled(schema, '#') ?? (() => undefined);

/** Undefined for a schema whose values have no properties or items to count. */
function compiled(schema: ReadSchema, schemaPath: string): CountCheck | undefined {
  if (schema.anyOf) return unionCheck(schema.anyOf, schemaPath);
  if (schema.type === 'object') return objectCheck(schema, schemaPath);
  return schema.type === 'array' ? arrayCheck(schema, schemaPath) : undefined;
}

/** A value has a wrong number only if it has one for each branch of its type. */
function unionCheck(branches: readonly ReadSchema[], schemaPath: string): CountCheck | undefined {
  const checks = branches.flatMap((branch, at) => {
    const check = compiled(branch, `${schemaPath}/anyOf/${at}`);
    return check ? [{ type: branch.type, check }] : [];
  });
  if (checks.length === 0) return undefined;
  return (value, instancePath) => {
    const faults = checks
      .filter(({ type }) => type === typeOf(value))
      .map(({ check }) => check(value, instancePath));
    return faults.includes(undefined) ? undefined : faults[0];
  };
}

function objectCheck(schema: ReadSchema, schemaPath: string): CountCheck {
  const { properties = {}, patternProperties, maxProperties } = schema;
  const isClosed = schema.additionalProperties === false && patternProperties === undefined;
  const declared = Object.keys(properties).length;
  const most = maxProperties ?? (isClosed ? declared + MAX_UNKNOWN : Number.POSITIVE_INFINITY);
  const children = Object.entries(properties).flatMap(([name, child]) => {
    const check = compiled(child, `${schemaPath}/properties/${name}`);
    return check ? [{ name, check }] : [];
  });
  return (value, instancePath) => {
    if (typeOf(value) !== 'object') return undefined;
    const record = value as Readonly<Record<string, unknown>>;
    const names = most === Number.POSITIVE_INFINITY ? NO_NAMES : Object.keys(record);
    if (names.length > most) {
      return isClosed && maxProperties === undefined
        ? unknownFault(names, properties, schemaPath, instancePath)
        : countFault('maxProperties', most, schemaPath, instancePath);
    }
    const long = names.find((name) => name.length > MAX_NAME_CHARS);
    if (long !== undefined) return unknownFault([long], properties, schemaPath, instancePath);
    for (const { name, check } of children) {
      const child = record[name];
      if (child === undefined) continue;
      const fault = check(child, `${instancePath}/${name}`);
      if (fault) return fault;
    }
    return undefined;
  };
}

function arrayCheck({ items, maxItems }: ReadSchema, schemaPath: string): CountCheck {
  const most = maxItems ?? Number.POSITIVE_INFINITY;
  const check = items && compiled(items, `${schemaPath}/items`);
  return (value, instancePath) => {
    if (!Array.isArray(value)) return undefined;
    if (value.length > most) return countFault('maxItems', most, schemaPath, instancePath);
    if (!check) return undefined;
    for (let at = 0; at < value.length; at++) {
      const fault = check(value[at], `${instancePath}/${at}`);
      if (fault) return fault;
    }
    return undefined;
  };
}

function unknownFault(
  names: readonly string[],
  properties: object,
  schemaPath: string,
  instancePath: string,
): SchemaFault {
  const unknown: string[] = [];
  for (const name of names) {
    if (!Object.hasOwn(properties, name) && unknown.push(name) === MAX_NAMED) break;
  }
  return {
    keyword: 'additionalProperties',
    schemaPath,
    instancePath,
    message: 'must not have additional properties',
    params: { additionalProperties: unknown },
  };
}

const countFault = (
  keyword: 'maxProperties' | 'maxItems',
  most: number,
  schemaPath: string,
  instancePath: string,
): SchemaFault => ({
  keyword,
  schemaPath,
  instancePath,
  message: `must not have more than ${most} ${keyword === 'maxItems' ? 'items' : 'properties'}`,
});

/** The type of a value as schemas name it, as far as they count its parts. */
function typeOf(value: unknown): 'object' | 'array' | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  return Array.isArray(value) ? 'array' : 'object';
}
