/** Validates a value against a schema; the error names in one sentence what is wrong. */
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { OrchdError } from '../model/errors.ts';
import { namesIn, shortened, wordsOf } from './fault-words.ts';
import { didYouMean } from './nearest.ts';
import { countCheck, type SchemaFault } from './schema-counts.ts';
import { faultsOf } from './schema-faults.ts';

export function checker<S extends TSchema>(schema: S): (value: unknown) => Static<S> {
  const compiled = Compile(schema);
  const wrongCount = countCheck(schema);
  return (value) => {
    const excess = wrongCount(value, '');
    if (excess) throw fault(schema, [excess]);
    if (compiled.Check(value)) return value as Static<S>;
    throw fault(schema, faultsOf(schema, compiled, value));
  };
}

function fault(schema: TSchema, errors: readonly SchemaFault[]): OrchdError {
  // An unknown field is reported before any other fault: it is most likely a misspelt name.
  const unknown = errors.find(({ keyword }) => keyword === 'additionalProperties');
  const first = unknown ?? errors[0];
  const field = shortened(first?.instancePath.slice(1).replaceAll('/', '.') ?? '');
  const names = first ? namesIn(first) : [];
  const alike = errors.filter((error) => isAlike(error, first));
  const what = choices(alike) ?? (first ? wordsOf(first) : 'has the wrong form');
  const hint = unknown === undefined ? '' : hintFor(names[0], knownTo(schema, alike));
  const where = field === '' ? 'the request' : `"${field}"`;
  return new OrchdError('INVALID_PARAMS', `${where} ${what}${hint}`, { field: field || (names[0] ?? '') });
}

/** A failed union reports the same fault at the same path once for each of its branches. */
const isAlike = (error: SchemaFault, first: SchemaFault | undefined): boolean =>
  error.keyword === first?.keyword && error.instancePath === first.instancePath;

/** "must be one of …" where the schema allows only certain constants. */
function choices(alike: readonly SchemaFault[]): string | undefined {
  const values = alike.flatMap(({ keyword, params }) => {
    if (keyword === 'const') return [params?.allowedValue];
    return keyword === 'enum' ? (params?.allowedValues ?? []) : [];
  });
  const texts = [...new Set(values)].map((value) => JSON.stringify(value));
  if (texts.length === 0) return undefined;
  return `must be ${texts.length === 1 ? '' : 'one of '}${texts.join(', ')}`;
}

function hintFor(name: string | undefined, known: readonly string[]): string {
  // A field that another branch of the union has is spelt correctly: there is nothing to suggest.
  return name === undefined || known.includes(name) ? '' : didYouMean(name, known);
}

/** The fields that the schema declares at the places where these faults were found. */
const knownTo = (schema: TSchema, faults: readonly SchemaFault[]): readonly string[] =>
  faults.flatMap(({ schemaPath }) => {
    const steps = schemaPath.split('/').slice(1);
    const found = steps.reduce<unknown>(
      (at, step) => (at as Record<string, unknown> | undefined)?.[step],
      schema,
    );
    return Object.keys((found as { properties?: object } | undefined)?.properties ?? {});
  });
