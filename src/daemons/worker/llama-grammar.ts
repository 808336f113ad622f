/** Grammars that force an answer into a form: JSON, a JSON schema, or a tool call. */
import type { Llama, LlamaGrammar } from 'node-llama-cpp';
import { OrchdError } from '../../model/errors.ts';
import type { AnswerFormat, Tool } from '../execution/inference-request.ts';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Limits because a grammar grows with its schema, and with every repetition in it. */
const MAX_SCHEMA_CHARS = 64 * 1024;
const MAX_COUNT = 4096;
const COUNT_KEYWORDS: ReadonlySet<string> = new Set([
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
]);

export function grammarOf(llama: Llama, format: AnswerFormat): Promise<LlamaGrammar> | undefined {
  if (format === 'any') return undefined;
  return format === 'json'
    ? llama.getGrammarFor('json')
    : fromSchema(llama, format.schema, 'response_format');
}

/** A grammar for exactly one call of one of the tools. */
export function callGrammar(llama: Llama, tools: readonly Tool[]): Promise<LlamaGrammar> {
  const calls = tools.map(({ name, parameters }) => ({
    type: 'object',
    properties: { name: { const: name }, arguments: parameters ?? { type: 'object', properties: {} } },
  }));
  return fromSchema(llama, calls.length === 1 ? (calls[0] as JsonSchema) : { oneOf: calls }, 'tools');
}

/** A system message that describes the tools, which works for models without tool support too. */
export function callInstruction(tools: readonly Tool[]): string {
  const list = tools.map(({ name, description, parameters }) =>
    JSON.stringify({ name, ...(description !== undefined && { description }), parameters: parameters ?? {} }),
  );
  return `Answer with one call of a function, as JSON with "name" and "arguments". The functions are:\n${list.join('\n')}`;
}

export function checkSchema(schema: JsonSchema, field: string): void {
  const text = JSON.stringify(schema, (key, value: unknown) => {
    if (COUNT_KEYWORDS.has(key) && typeof value === 'number' && value > MAX_COUNT) {
      throw new OrchdError('UNSUPPORTED', `"${key}" in "${field}" may be ${MAX_COUNT} at most`, { field });
    }
    return value;
  });
  if (text.length <= MAX_SCHEMA_CHARS) return;
  throw new OrchdError('UNSUPPORTED', `the schema in "${field}" is too large`, { field });
}

async function fromSchema(llama: Llama, schema: JsonSchema, field: string): Promise<LlamaGrammar> {
  checkSchema(schema, field);
  try {
    return await llama.createGrammarForJsonSchema(schema as never);
  } catch (error) {
    const message = `the schema in "${field}" has something that cannot be enforced`;
    throw new OrchdError('UNSUPPORTED', message, { field }, { cause: error });
  }
}
