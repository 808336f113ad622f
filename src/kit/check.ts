/** Checks a value against a schema and says in one sentence what is wrong with it. */
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { OrchdError } from '../model/errors.ts';

export function checker<S extends TSchema>(schema: S): (value: unknown) => Static<S> {
  const compiled = Compile(schema);
  return (value) => {
    if (compiled.Check(value)) return value as Static<S>;
    throw fault(compiled.Errors(value) as readonly SchemaFault[]);
  };
}

interface SchemaFault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly message: string;
  readonly params?: {
    readonly additionalProperties?: readonly string[];
    readonly requiredProperties?: readonly string[];
  };
}

function fault(errors: readonly SchemaFault[]): OrchdError {
  // The first one whose place is the deepest says most: a failed union lists its branches first.
  const unknown = errors.find(({ keyword }) => keyword === 'additionalProperties');
  const first = unknown ?? errors[0];
  const field = first?.instancePath.slice(1).replaceAll('/', '.') ?? '';
  const names = first?.params?.additionalProperties ?? first?.params?.requiredProperties;
  const what =
    names && names.length > 0 ? `${first?.message}: ${names.slice(0, 5).join(', ')}` : first?.message;
  const where = field === '' ? 'the request' : `"${field}"`;
  return new OrchdError('INVALID_PARAMS', `${where} ${what ?? 'has the wrong form'}`, {
    field: field || (names?.[0] ?? ''),
  });
}
