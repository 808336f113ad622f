/**
 * Checks the arguments of a call as a model wrote them: a text that may be empty, broken, huge or hostile. A refusal names
 * what to correct, because the model reads it and tries again.
 */
import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { namesIn, shortened, wordsOf } from '../../kit/fault-words.ts';
import { type JsonFault, JsonFaultError, parseInSlices } from '../../kit/json-parser.ts';
import { didYouMean } from '../../kit/nearest.ts';
import type { SchemaFault } from '../../kit/schema-counts.ts';
import { faultsOf } from '../../kit/schema-faults.ts';
import { atOnce } from '../../kit/slices.ts';
import { OrchdError } from '../../model/errors.ts';
import { schemaFault, unescaped } from './schema-faults.ts';
import type { JsonSchema, Tool } from './tool.ts';

export const MAX_ARGUMENT_BYTES = 64 * 1024;

export type ToolArguments = Readonly<Record<string, unknown>>;

export type Checked =
  | { readonly ok: true; readonly args: ToolArguments }
  /** `message` is for the model. */
  | { readonly ok: false; readonly message: string };

/** Compiles the schema of a tool once. Throws INVALID_PARAMS for a schema that cannot be used. */
export function argumentsCheck({ name, parameters }: Pick<Tool, 'name' | 'parameters'>): ArgumentsCheck {
  const schema = plainSchema(name, parameters);
  const compiled = compile(name, schema);
  return (text) => {
    const parsed = parseArguments(text);
    if (!parsed.ok) return parsed;
    if (compiled.Check(parsed.args)) return parsed;
    const message = messageOf(faultsOf(schema, compiled, parsed.args), schema);
    return { ok: false, message };
  };
}

export type ArgumentsCheck = (text: string) => Checked;

/** A copy of the schema as JSON, so that a later change of the caller's object changes nothing here. */
export function plainSchema(name: string, parameters: JsonSchema): JsonSchema {
  let copy: unknown;
  try {
    copy = JSON.parse(JSON.stringify(parameters));
  } catch {
    throw unusable(name, 'they are not JSON');
  }
  const fault = schemaFault(copy);
  if (fault !== undefined) throw unusable(name, fault);
  if ((copy as JsonSchema)['type'] !== 'object') throw unusable(name, '#/type must be "object"');
  return copy as JsonSchema;
}

function compile(name: string, schema: JsonSchema): Validator {
  try {
    return Compile(schema as TSchema);
  } catch (error) {
    // A pattern that is no regular expression, or a reference to itself.
    throw unusable(name, shortened(error instanceof Error ? error.message : 'they cannot be compiled'));
  }
}

const unusable = (name: string, why: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `the parameters of the tool "${name}" are no usable JSON Schema: ${why}`, {
    field: 'parameters',
  });

const refused = (message: string): Checked & { readonly ok: false } => ({ ok: false, message });

/** The arguments of a call, before they are checked against the schema of the tool. */
export function parseArguments(text: string): Checked {
  // Each character takes at least a byte, so most texts that are too long need not be measured.
  if (text.length > MAX_ARGUMENT_BYTES || Buffer.byteLength(text) > MAX_ARGUMENT_BYTES)
    return refused(`the arguments are larger than ${MAX_ARGUMENT_BYTES} bytes`);
  // Models write nothing at all for a call without arguments.
  if (text.trim() === '') return { ok: true, args: {} };
  let value: unknown;
  try {
    value = atOnce(parseInSlices(text));
  } catch (error) {
    if (error instanceof JsonFaultError) return refused(PARSE_FAULTS[error.fault]);
    throw error;
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    return refused('the arguments must be a JSON object, such as {"name": "value"}');
  if (reachesPrototype(value)) return refused(PROTOTYPE_FIELD);
  return { ok: true, args: value as ToolArguments };
}

const PROTOTYPE_FIELD =
  'the arguments have a field that is not allowed: "__proto__", or "prototype" in "constructor"';

const PARSE_FAULTS: Readonly<Record<JsonFault, string>> = {
  'not JSON': 'the arguments are not valid JSON: write one JSON object, with nothing before or after it',
  'too deep': 'the arguments are nested too deeply',
  'too many': 'the arguments have too many values',
  'too many keys': 'an object in the arguments has too many fields',
  // In brackets: without them the literal would set its own prototype.
  ['__proto__']: PROTOTYPE_FIELD,
};

/** True for a value that changes the prototype of all objects, if code merges it into one (`__proto__` is gone). */
function reachesPrototype(value: unknown): boolean {
  if (value === null || typeof value !== 'object') return false;
  const made = Object.hasOwn(value, 'constructor') ? (value as ToolArguments)['constructor'] : undefined;
  if (made !== null && typeof made === 'object' && Object.hasOwn(made, 'prototype')) return true;
  return Object.values(value).some(reachesPrototype);
}

/** Faults that explain more than others come first: the name of a field that is unknown, then of one that is missing. */
const TELLING = ['additionalProperties', 'required'];

function messageOf(faults: readonly SchemaFault[], schema: JsonSchema): string {
  const first =
    TELLING.flatMap((keyword) => faults.filter((fault) => fault.keyword === keyword))[0] ?? faults[0];
  if (!first) return 'the arguments do not have the form of the schema';
  const field = first.instancePath.slice(1).split('/').map(unescaped).join('.');
  const subject = field === '' ? 'the call' : `"${shortened(field)}"`;
  const [unknown] = first.keyword === 'additionalProperties' ? namesIn(first) : [];
  const hint = unknown === undefined ? '' : didYouMean(unknown, fieldsAt(schema, first.schemaPath));
  return `${subject} ${choices(faults, first) ?? phrase(first)}${hint}`;
}

function phrase(fault: SchemaFault): string {
  return fault.keyword === 'boolean' ? 'is not allowed' : wordsOf(fault);
}

/** "must be one of …": a union reports a constant once for each of its branches. */
function choices(faults: readonly SchemaFault[], first: SchemaFault): string | undefined {
  const values = faults
    .filter(({ keyword, instancePath }) => keyword === first.keyword && instancePath === first.instancePath)
    .flatMap(({ keyword, params }) => {
      if (keyword === 'const') return [params?.allowedValue];
      return keyword === 'enum' ? (params?.allowedValues ?? []) : [];
    });
  const texts = [...new Set(values.map((value) => JSON.stringify(value)))];
  if (texts.length === 0) return undefined;
  return `must be ${texts.length === 1 ? '' : 'one of '}${shortened(texts.join(', '))}`;
}

/** The fields that the schema declares where the fault was found. */
function fieldsAt(schema: JsonSchema, schemaPath: string): readonly string[] {
  let found: unknown = schema;
  for (const step of schemaPath.split('/').slice(1).map(unescaped))
    found = (found as JsonSchema | undefined)?.[step];
  return Object.keys((found as { properties?: object } | undefined)?.properties ?? {});
}
