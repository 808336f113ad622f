/** What is wrong with a value that a schema has refused, in words for the person who sent it. */
import type { SchemaFault } from './schema-counts.ts';

/** As many properties are named in one error. */
const MAX_NAMED = 5;
/** Names of callers may be as long as their request. */
const MAX_NAME_CHARS = 200;

export const shortened = (name: string): string =>
  name.length <= MAX_NAME_CHARS ? name : `${name.slice(0, MAX_NAME_CHARS)}…`;

/** The fields that the fault is about: those that are missing, or those that should not be there. */
export function namesIn({ params }: SchemaFault): readonly string[] {
  const names = params?.additionalProperties ?? params?.requiredProperties ?? [];
  return names.slice(0, MAX_NAMED).map(shortened);
}

const TYPES: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'true or false',
  integer: 'a whole number',
  null: 'null',
  number: 'a number',
  object: 'an object',
  string: 'a string',
};

const COMPARISONS: Readonly<Record<string, string>> = {
  '>=': 'at least',
  '<=': 'at most',
  '>': 'more than',
  '<': 'less than',
};

/** A sentence whose subject is the value. */
export function wordsOf(fault: SchemaFault): string {
  const { keyword, message, params = {} } = fault;
  const names = namesIn(fault).map((name) => `"${name}"`);
  switch (keyword) {
    case 'required':
      return `needs ${names.join(' and ')}`;
    case 'additionalProperties':
      return `has no field ${names.join(', ')}`;
    case 'type':
      return `must be ${[params.type ?? []].flat().map(typeName).join(' or ')}`;
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return `must be ${COMPARISONS[params.comparison ?? ''] ?? params.comparison} ${params.limit}`;
    default:
      return message;
  }
}

const typeName = (type: string): string => TYPES[type] ?? type;
