/** The OpenAPI page, made from the same table and the same schemas that the server uses. */
import { ERRORS } from '../model/errors.ts';
import type { Route } from '../wire/route.ts';

interface JsonSchema {
  readonly properties?: Readonly<Record<string, object>>;
}

export function openApi(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    const methods = paths[path] ?? {};
    paths[path] = methods;
    methods[route.method.toLowerCase()] = operation(route);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'orchd', version, description: 'One brain for LLM work', license: { name: 'MIT' } },
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Error: errorSchema() },
    },
  };
}

function operation(route: Route): object {
  const failure = { content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } };
  const responses = Object.fromEntries(
    Object.entries(route.answers).map(([status, description]) => [
      status,
      Number(status) < 400 ? { description } : { description, ...failure },
    ]),
  );
  return {
    summary: route.summary,
    'x-role': route.role,
    ...(route.role !== 'public' && { security: [{ bearer: [] }] }),
    parameters: [...pathParameters(route.path), ...queryParameters(route.query as JsonSchema | undefined)],
    ...(route.body && {
      requestBody: { required: true, content: { 'application/json': { schema: route.body } } },
    }),
    responses: { ...responses, default: { description: 'An error', ...failure } },
  };
}

function pathParameters(path: string): object[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters(query: JsonSchema | undefined): object[] {
  return Object.entries(query?.properties ?? {}).map(([name, schema]) => ({ name, in: 'query', schema }));
}

function errorSchema(): object {
  return {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['code', 'message', 'retriable'],
        properties: {
          code: { type: 'string', enum: Object.keys(ERRORS) },
          message: { type: 'string' },
          retriable: { type: 'boolean' },
          next: { type: 'string' },
          reason: { type: 'string' },
          field: { type: 'string' },
          retry_after_ms: { type: 'integer' },
          correlation_id: { type: 'string' },
        },
      },
    },
  };
}
