/**
 * The part of a JSON Schema of somebody else whose check takes a time that grows with the arguments and nothing more. A
 * pattern can take for ever, and so can references that double with every step: who writes such a schema, and has a model
 * write the arguments for it, would stop the brain. The server checks its calls by the whole schema itself.
 */
import type { JsonSchema } from './tool.ts';

const LEFT_OUT: ReadonlySet<string> = new Set([
  ...['$ref', '$dynamicRef', '$recursiveRef', '$defs', 'definitions'],
  ...['format', 'pattern', 'patternProperties', 'propertyNames', 'uniqueItems'],
  ...['unevaluatedItems', 'unevaluatedProperties'],
  // What they decide may hang on a part that is left out.
  ...['not', 'if', 'then', 'else', 'oneOf', 'dependentSchemas', 'contains', 'minContains', 'maxContains'],
]);
/** Keywords whose value is a table of schemas, by names of the caller's choice. */
const TABLES: ReadonlySet<string> = new Set(['properties']);
/** Keywords whose value is data. */
const DATA: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples', 'required']);

/** The schema without the keywords whose check may take long. It lets everything pass that the whole schema does. */
export function linearSchema(schema: JsonSchema): JsonSchema {
  return partOf(schema) as JsonSchema;
}

function partOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(partOf);
  if (typeof value !== 'object' || value === null) return value;
  const isOpen = Object.hasOwn(value, 'patternProperties') || Object.hasOwn(value, 'propertyNames');
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, of]) => {
      // With patterns of names nobody knows which fields are the additional ones.
      if (LEFT_OUT.has(name) || (isOpen && name === 'additionalProperties')) return [];
      if (DATA.has(name)) return [[name, of]];
      return [[name, TABLES.has(name) ? tableOf(of) : partOf(of)]];
    }),
  );
}

const tableOf = (table: unknown): unknown =>
  typeof table === 'object' && table !== null
    ? Object.fromEntries(Object.entries(table).map(([name, schema]) => [name, partOf(schema)]))
    : table;
