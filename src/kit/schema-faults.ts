/**
 * Finds the faults of a value that a schema has refused. Collecting them takes typebox about 10 µs for each item, faulty
 * or not, so that a long array is first reduced to its first faulty item.
 */
import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import type { ReadSchema, SchemaFault } from './schema-counts.ts';

/** Arrays up to this length are searched as they are. */
const FEW_ITEMS = 16;

export function faultsOf(
  schema: TSchema,
  compiled: Pick<Validator, 'Errors'>,
  value: unknown,
): readonly SchemaFault[] {
  const moved: MovedItem[] = [];
  const reduced = withFewItems(schema, value, '', moved);
  const faults = compiled.Errors(reduced) as readonly SchemaFault[];
  return faults.map((fault) => {
    const from = moved.find(({ path }) => fault.instancePath.startsWith(`${path}/0`));
    if (!from) return fault;
    const rest = fault.instancePath.slice(from.path.length + '/0'.length);
    return { ...fault, instancePath: `${from.path}/${from.index}${rest}` };
  });
}

/** An item that has become the only one of the array at `path`. */
interface MovedItem {
  readonly path: string;
  readonly index: number;
}

/** A copy of the value in which each long array has its first faulty item only, or a few if none is faulty. */
function withFewItems(schema: ReadSchema, value: unknown, path: string, moved: MovedItem[]): unknown {
  if (Array.isArray(value)) {
    const { items } = branchOf(schema, 'array') ?? {};
    if (value.length <= FEW_ITEMS || !items) return value;
    const compiled = Compile(items as TSchema);
    const index = value.findIndex((item) => !compiled.Check(item));
    if (index < 0) return value.slice(0, FEW_ITEMS);
    moved.push({ path, index });
    return [value[index]];
  }
  const { properties } = (value !== null && typeof value === 'object' && branchOf(schema, 'object')) || {};
  if (!properties) return value;
  const given = value as Readonly<Record<string, unknown>>;
  const reduced: Record<string, unknown> = { ...given };
  for (const [name, child] of Object.entries(properties)) {
    if (Object.hasOwn(given, name))
      reduced[name] = withFewItems(child, given[name], `${path}/${name}`, moved);
  }
  return reduced;
}

/** The schema itself or the branch of its union that describes values of this type. */
const branchOf = (schema: ReadSchema, type: 'array' | 'object'): ReadSchema | undefined =>
  [schema, ...(schema.anyOf ?? [])].find((each) => each.type === type);
