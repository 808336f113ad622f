/** Generates the OpenAPI document from the same routes and schemas that the server checks requests with. */
import type { TSchema } from 'typebox';
import { ErrorBody, OpenAiErrorBody } from '../model/http/errors.ts';
import { errorShapeOf } from '../wire/render-error.ts';
import { type AnswerFormat, isBodyRequired, type Route } from '../wire/route.ts';

type JsonObject = Readonly<Record<string, unknown>>;

export function openApi(routes: readonly Route[], version: string): object {
  const components = new Components();
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    const methods = paths[path] ?? {};
    paths[path] = methods;
    methods[route.method.toLowerCase()] = operationOf(route, components);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'orchd', version, description: 'One brain for LLM work', license: { name: 'MIT' } },
    servers: [{ url: '/' }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: components.schemas,
    },
  };
}

/** Collects the schemas that have a title: each is written once, under its title, and referenced everywhere else. */
class Components {
  readonly schemas: Record<string, unknown> = {};

  /** The schema as it appears in the document: plain JSON, with references for the parts that have a title. */
  reference(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((item) => this.reference(item));
    if (typeof schema !== 'object' || schema === null) return schema;
    const written = Object.fromEntries(
      Object.entries(schema).map(([name, value]) => [name, this.reference(value)]),
    );
    const { title, anyOf } = schema as JsonObject;
    if (Array.isArray(anyOf) && anyOf.every(isConstant)) {
      const { anyOf: _, ...rest } = written;
      return { ...rest, type: 'string', enum: anyOf.map((each) => each.const) };
    }
    if (typeof title !== 'string') return written;
    this.schemas[title] ??= written;
    return { $ref: `#/components/schemas/${title}` };
  }
}

/** A union of string constants is written as one `enum`, from which client generators make a type. */
const isConstant = (schema: { readonly const?: unknown }): boolean => typeof schema.const === 'string';

function operationOf(route: Route, components: Components): object {
  const errorBody = errorShapeOf(route.path) === 'openai' ? OpenAiErrorBody : ErrorBody;
  const failure = (description: string): object => ({
    description,
    content: { 'application/json': { schema: components.reference(errorBody) } },
  });
  const responses = Object.entries(route.answers).map(([status, answer]) => {
    if (typeof answer !== 'string') return [status, responseOf(answer, components)];
    return [status, Number(status) < 400 ? { description: answer } : failure(answer)];
  });
  return {
    operationId: route.operationId,
    tags: [route.tag],
    summary: route.summary,
    'x-role': route.role,
    ...(route.scope && { 'x-scope': route.scope }),
    ...(route.role !== 'public' && { security: [{ bearer: [] }] }),
    parameters: [
      ...pathParameters(route.path),
      ...queryParameters(route.query, components),
      ...headerParameters(route.requestHeaders),
    ],
    ...(route.body && { requestBody: requestBody(route.body, components) }),
    responses: { ...Object.fromEntries(responses), default: failure('Any other error') },
  };
}

function responseOf({ description, body, type, events }: AnswerFormat, components: Components): object {
  const content = {
    ...(body && { 'application/json': { schema: components.reference(body) } }),
    ...(events && { 'text/event-stream': { schema: { type: 'string', description: events } } }),
    ...(type && { [type]: { schema: { type: 'string' } } }),
  };
  return { description, content };
}

const requestBody = (body: TSchema, components: Components): object => ({
  required: isBodyRequired(body),
  content: { 'application/json': { schema: components.reference(body) } },
});

const pathParameters = (path: string): object[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));

const headerParameters = (headers: Route['requestHeaders'] = {}): object[] =>
  Object.entries(headers).map(([name, description]) => ({
    name,
    in: 'header',
    description,
    schema: { type: 'string' },
  }));

function queryParameters(query: TSchema | undefined, components: Components): object[] {
  const { properties = {}, required = [] } = (query ?? {}) as {
    properties?: JsonObject;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: components.reference(schema),
  }));
}
