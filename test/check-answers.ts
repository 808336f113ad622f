/**
 * Loaded into every process that the tests start, servers included: each answer of a route is compared with the
 * schema that OpenAPI shows for its status. A field too many counts too, though clients are told to expect new ones.
 * An answer of another shape is an uncaught error, which fails the test, or ends the server.
 */
import { subscribe } from 'node:diagnostics_channel';
import { createRequire } from 'node:module';
import type { AnswerMessage } from '../src/wire/http-server.ts';
import type { AnswerFormat } from '../src/wire/route.ts';

/** ANSWER_CHANNEL of src/wire/http-server.ts, which most of these processes never load. */
const CHANNEL = 'orchd:http:answer';

type Check = (value: unknown) => string | undefined;
type Schema = NonNullable<AnswerFormat['body']>;

const checks = new WeakMap<Schema, Check>();

/** Compiled when the first answer comes: the schema compiler takes longer to load than most processes live. */
function checkOf(schema: Schema): Check {
  const known = checks.get(schema);
  if (known) return known;
  const { Compile } = createRequire(import.meta.url)('typebox/schema') as typeof import('typebox/schema');
  const compiled = Compile(closed(schema) as never);
  const check: Check = (value) => {
    if (compiled.Check(value)) return undefined;
    const [, errors] = compiled.Errors(value) as unknown as [
      boolean,
      { instancePath: string; message: string }[],
    ];
    return errors.map(({ instancePath, message }) => `${instancePath} ${message}`).join('; ');
  };
  checks.set(schema, check);
  return check;
}

/** The schema with no other fields allowed in objects that do not say themselves whether they are open. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  return 'properties' in copy && !('additionalProperties' in copy)
    ? { ...copy, additionalProperties: false }
    : copy;
}

export function faultOf({ route, answer }: AnswerMessage): string | undefined {
  const name = `${route.method} ${route.path} answered ${answer.status}`;
  // A node that passes an answer on as text has not made it: it was compared where it was made.
  if (answer.text !== undefined) return undefined;
  // Parsing a large one would count as work of the server, whose turns some tests measure.
  if (typeof answer.json === 'object') return undefined;
  const format = route.answers[answer.status];
  if (format === undefined) return `${name}, which its route does not declare`;
  const schema = typeof format === 'string' ? undefined : format.body;
  const body = answer.json === undefined ? answer.body : JSON.parse(answer.json);
  if (schema === undefined)
    return body === undefined ? undefined : `${name} with a body that is not declared`;
  // As it goes over the wire: what is undefined is not there.
  const fault = checkOf(schema)(body === undefined ? undefined : JSON.parse(JSON.stringify(body)));
  return fault === undefined ? undefined : `${name} with another shape than its schema: ${fault}`;
}

subscribe(CHANNEL, (message) => {
  const fault = faultOf(message as AnswerMessage);
  if (fault !== undefined) throw new Error(fault);
});
