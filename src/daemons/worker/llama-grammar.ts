/** Forms that an answer must have, as grammars that the engine samples by. */
import type { Llama, LlamaGrammar } from 'node-llama-cpp';
import { OrchdError } from '../../model/errors.ts';
import type { Format, Tool } from './ask.ts';

type Schema = Readonly<Record<string, unknown>>;

/** A grammar grows with its schema, and with every repetition that is counted out. */
const MAX_SCHEMA_CHARS = 64 * 1024;
const MAX_COUNT = 4096;
const COUNTS: ReadonlySet<string> = new Set([
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
]);

export function grammarOf(llama: Llama, format: Format): Promise<LlamaGrammar> | undefined {
  if (format === 'any') return undefined;
  return format === 'json'
    ? llama.getGrammarFor('json')
    : fromSchema(llama, format.schema, 'response_format');
}

/** One call of one of these. */
export function callGrammar(llama: Llama, tools: readonly Tool[]): Promise<LlamaGrammar> {
  const calls = tools.map(({ name, parameters }) => ({
    type: 'object',
    properties: { name: { const: name }, arguments: parameters ?? { type: 'object', properties: {} } },
  }));
  return fromSchema(llama, calls.length === 1 ? (calls[0] as Schema) : { oneOf: calls }, 'tools');
}

/** What a model without tools of its own is told of them. */
export function callInstruction(tools: readonly Tool[]): string {
  const list = tools.map(({ name, description, parameters }) =>
    JSON.stringify({ name, ...(description !== undefined && { description }), parameters: parameters ?? {} }),
  );
  return `Answer with one call of a function, as JSON with "name" and "arguments". The functions are:\n${list.join('\n')}`;
}

export function checkSchema(schema: Schema, field: string): void {
  const text = JSON.stringify(schema, (key, value: unknown) => {
    if (COUNTS.has(key) && typeof value === 'number' && value > MAX_COUNT) {
      throw new OrchdError('UNSUPPORTED', `"${key}" in "${field}" may be ${MAX_COUNT} at most`, { field });
    }
    return value;
  });
  if (text.length <= MAX_SCHEMA_CHARS) return;
  throw new OrchdError('UNSUPPORTED', `the schema in "${field}" is too large`, { field });
}

async function fromSchema(llama: Llama, schema: Schema, field: string): Promise<LlamaGrammar> {
  checkSchema(schema, field);
  try {
    return await llama.createGrammarForJsonSchema(schema as never);
  } catch (error) {
    const message = `the schema in "${field}" has something that cannot be enforced`;
    throw new OrchdError('UNSUPPORTED', message, { field }, { cause: error });
  }
}
