/**
 * Finds the faults of a JSON Schema that the compiler of schemas accepts silently: it ignores a misspelt type, and lets
 * nothing pass a reference that leads nowhere. Both would show only when a model calls the tool.
 */
import { MAX_DEPTH } from '../../kit/depth.ts';

const TYPES: ReadonlySet<unknown> = new Set([
  'array',
  'boolean',
  'integer',
  'null',
  'number',
  'object',
  'string',
]);

/** Keywords by the form of their value. */
const ONE_SCHEMA = ['additionalProperties', 'contains', 'else', 'if', 'not', 'propertyNames', 'then'];
const SCHEMA_LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const SCHEMA_TABLES = ['$defs', 'definitions', 'dependentSchemas', 'patternProperties', 'properties'];
const NUMBERS = ['exclusiveMaximum', 'exclusiveMinimum', 'maximum', 'minimum', 'multipleOf'];
const COUNTS = ['maxItems', 'maxLength', 'maxProperties', 'minItems', 'minLength', 'minProperties'];

/** The first fault of the schema, in words that name its place; undefined if there is none. */
export function schemaFault(schema: unknown): string | undefined {
  return (
    faultAt(schema, '#', schema, 0) ??
    (hasEndlessCheck(schema) ? '# refers to itself without end' : undefined)
  );
}

type Fields = Readonly<Record<string, unknown>>;

function faultAt(schema: unknown, place: string, root: unknown, depth: number): string | undefined {
  if (typeof schema === 'boolean') return undefined;
  if (!isObject(schema)) return `${place} must be a schema`;
  if (depth > MAX_DEPTH) return `${place} is nested too deeply`;
  const own = keywordFault(schema, root);
  if (own !== undefined) return `${place}/${own}`;
  for (const [step, child] of childrenOf(schema)) {
    const fault = faultAt(child, `${place}/${step}`, root, depth + 1);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function keywordFault(schema: Fields, root: unknown): string | undefined {
  const { type, required, $ref } = schema;
  const wrongType = type === undefined ? undefined : [type].flat().find((each) => !TYPES.has(each));
  if (wrongType !== undefined) return `type: there is no type ${JSON.stringify(wrongType)}`;
  if (required !== undefined && !isTextList(required)) return 'required must be a list of names';
  if (schema['enum'] !== undefined && !Array.isArray(schema['enum'])) return 'enum must be a list';
  if ($ref !== undefined && target($ref, root) === undefined) return '$ref leads nowhere in this schema';
  for (const name of SCHEMA_LISTS)
    if (schema[name] !== undefined && !Array.isArray(schema[name])) return `${name} must be a list`;
  for (const name of SCHEMA_TABLES)
    if (schema[name] !== undefined && !isObject(schema[name])) return `${name} must be an object`;
  for (const name of [...NUMBERS, ...COUNTS])
    if (schema[name] !== undefined && typeof schema[name] !== 'number') return `${name} must be a number`;
  return undefined;
}

function* childrenOf(schema: Fields): Generator<[step: string, child: unknown]> {
  for (const name of ONE_SCHEMA) if (schema[name] !== undefined) yield [name, schema[name]];
  const lists = Array.isArray(schema['items']) ? [...SCHEMA_LISTS, 'items'] : SCHEMA_LISTS;
  if (schema['items'] !== undefined && !Array.isArray(schema['items'])) yield ['items', schema['items']];
  for (const name of [...lists, ...SCHEMA_TABLES])
    for (const [key, child] of Object.entries(schema[name] ?? {})) yield [`${name}/${key}`, child];
}

/** The schema that a reference means. References to other documents are refused: nothing is fetched to check a call. */
function target(reference: unknown, root: unknown): unknown {
  if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference)) return undefined;
  const steps = reference.slice(1).split('/').slice(1).map(unescaped);
  let found: unknown = root;
  for (const step of steps) {
    if (found === null || typeof found !== 'object' || !Object.hasOwn(found, step)) return undefined;
    found = (found as Fields)[step];
  }
  return typeof found === 'boolean' || isObject(found) ? found : undefined;
}

/**
 * Whether the check of some value would never end, because a schema leads back to itself without going into the value. A
 * tree, whose branches are trees, is fine: its check ends with the value.
 */
function hasEndlessCheck(root: unknown): boolean {
  const ended = new Set<unknown>();
  const isEndless = (schema: unknown, above: readonly unknown[]): boolean => {
    if (!isObject(schema) || ended.has(schema)) return false;
    if (above.includes(schema)) return true;
    const found = sameValueSchemas(schema, root).some((next) => isEndless(next, [...above, schema]));
    ended.add(schema);
    return found;
  };
  const isEndlessBelow = (schema: unknown): boolean =>
    isEndless(schema, []) ||
    (isObject(schema) && [...childrenOf(schema)].some(([, child]) => isEndlessBelow(child)));
  return isEndlessBelow(root);
}

/** The schemas that are applied to the same value as this one. */
function sameValueSchemas(schema: Fields, root: unknown): unknown[] {
  const lists = ['allOf', 'anyOf', 'oneOf'].flatMap((name) => (schema[name] ?? []) as unknown[]);
  const single = ['not', 'if', 'then', 'else'].map((name) => schema[name]);
  const dependent = Object.values(schema['dependentSchemas'] ?? {});
  return [target(schema['$ref'], root), ...lists, ...single, ...dependent];
}

/** A step of a JSON Pointer as the name that it stands for. */
export const unescaped = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~');

const isObject = (value: unknown): value is Fields =>
  value !== null && typeof value === 'object' && !Array.isArray(value);

const isTextList = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === 'string');
