/** Every operation of the OpenAPI page is whole, and every answer has the shape that the page shows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { ANSWER_CHANNEL } from '../../src/wire/http-server.ts';
import { type Route, route } from '../../src/wire/route.ts';
import { faultOf } from '../check-answers.ts';
import { httpBrain } from '../fakes/http-brain.ts';

interface Operation {
  readonly operationId?: string;
  readonly tags?: readonly string[];
  readonly summary?: string;
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description?: string; readonly content?: Content }>>;
}

type Content = Readonly<Record<string, { readonly schema?: object }>>;

async function operations(t: { after(run: () => Promise<void>): void }): Promise<[string, Operation][]> {
  const brain = await httpBrain({});
  t.after(() => brain.stop());
  const page = (await (await fetch(`${brain.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Operation>>;
  };
  return Object.entries(page.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [
      `${method} ${path}`,
      operation,
    ]),
  );
}

test('every operation has an id of its own, a tag, a summary, and a schema for every body and error', async (t) => {
  const all = await operations(t);
  assert.ok(all.length > 30);
  const ids = all.map(([, { operationId }]) => operationId);
  assert.equal(new Set(ids).size, all.length, 'each id is used once');
  const faults = all.flatMap(([name, operation]) => {
    const bodies = Object.entries(operation.responses).map(
      ([status, response]): [string, Content | undefined] => [status, response.content],
    );
    // 204 has no body, nor has the answer to a notification; everything else has, errors included.
    const isBodiless = (status: string): boolean =>
      status === '204' || (status === '202' && name === 'post /mcp');
    const bare = bodies.filter(([status, content]) => !isBodiless(status) && !isDescribed(content));
    const hasNames = operation.operationId && operation.tags?.length === 1 && operation.summary;
    const hasError = isDescribed(operation.responses['default']?.content);
    const isWhole = hasNames && hasError && bare.length === 0;
    return isWhole && (!operation.requestBody || isDescribed(operation.requestBody.content)) ? [] : [name];
  });
  assert.deepEqual(faults, []);
});

const isDescribed = (content: Content | undefined): boolean =>
  content !== undefined && Object.values(content).every(({ schema }) => schema !== undefined);

const shown: Route = route({
  operationId: 'show',
  tag: 'server',
  method: 'GET',
  path: '/shown',
  role: 'public',
  summary: '',
  answers: { 200: { description: '', body: Type.Object({ a: Type.Integer() }) }, 204: 'nothing' },
  handle: () => ({ status: 204 }),
});

test('an answer of another shape than its schema is found', () => {
  const fault = (answer: Parameters<typeof faultOf>[0]['answer']): string =>
    faultOf({ route: shown, answer }) ?? '';
  assert.equal(fault({ status: 200, body: { a: 1 } }), '');
  assert.equal(fault({ status: 200, json: '{"a":1}' }), '');
  assert.equal(fault({ status: 204 }), '');
  assert.match(fault({ status: 200, body: { a: 'x' } }), /another shape.*\/a/);
  assert.match(fault({ status: 200, body: { a: 1, b: 2 } }), /another shape.*additional/);
  assert.match(fault({ status: 200 }), /another shape/);
  assert.match(fault({ status: 201, body: {} }), /does not declare/);
  assert.match(fault({ status: 204, body: {} }), /not declared/);
});

test('answers are compared in every process of the tests', () => {
  assert.match(process.env['NODE_OPTIONS'] ?? '', /check-answers/, 'run the tests by npm test');
  assert.equal(ANSWER_CHANNEL, 'orchd:http:answer');
});
