/** The role that each route needs: the table of routes against the server that is built from it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Route } from '../../src/wire/route.ts';
import { grants, makeToken, ROLES, type Role, type TokenEntry } from '../../src/wire/tokens.ts';
import { type HttpBrain, httpBrain, refusalsOf } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';

const nameOf = ({ method, path }: Route): string => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`;

/** Asks with nothing in it that could be done: of jobs, models and pools that are not there. */
async function statusOf(brain: HttpBrain, { method, path }: Route, token?: string): Promise<number> {
  const response = await fetch(brain.url + path.replace(/:\w+/g, 'nobody'), {
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(method !== 'GET' && { 'content-type': 'application/json' }),
    },
    ...(method !== 'GET' && { body: '{}' }),
  });
  const text = await response.text();
  if (response.status !== 401 && response.status !== 403) return response.status;
  const { error } = JSON.parse(text) as { error: { code: string } };
  assert.equal(error.code, response.status === 401 ? 'UNAUTHORIZED' : 'FORBIDDEN');
  if (response.status === 401) assert.equal(response.headers.get('www-authenticate'), 'Bearer');
  return response.status;
}

test('[ORCH-1130] every route has a role: few are open, and who may only read changes nothing', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const isOpen = (route: Route): boolean => route.role === 'public';
  assert.deepEqual(brain.routes.filter(isOpen).map(nameOf).sort(), [
    'GET /health',
    'GET /leader',
    'GET /openapi.json',
    'GET /ready',
  ]);
  for (const route of brain.routes) {
    if (isOpen(route)) continue;
    assert.ok(ROLES.includes(route.role as Role), nameOf(route));
    // Its tools make calls of their own, each with the role of its route: test/flow/mcp-http.test.ts.
    if (nameOf(route) === 'POST /mcp') continue;
    if (route.method !== 'GET') assert.notEqual(route.role, 'read', nameOf(route));
  }
  assert.equal(new Set(brain.routes.map(nameOf)).size, brain.routes.length, 'each stands there once');
});

test('[ORCH-1130] once there is a token every route but the open ones wants one, and one of its role', async (t) => {
  const entries: TokenEntry[] = [];
  const brain = await httpBrain({ tokens: entries });
  t.after(() => brain.stop());
  const isRefused = (status: number): boolean => status === 401 || status === 403;
  for (const route of brain.routes) assert.ok(!isRefused(await statusOf(brain, route)), nameOf(route));

  const random = new SeededRandom(1);
  const tokens = ROLES.map((role) => ({ role, ...makeToken(random, 0, role, role) }));
  const stranger = makeToken(random, 0, 'stranger', 'admin').token;
  entries.push(...tokens.map(({ entry }) => entry));
  for (const route of brain.routes) {
    const { role } = route;
    if (role === 'public') {
      assert.ok(!isRefused(await statusOf(brain, route)), nameOf(route));
      continue;
    }
    for (const wrong of [undefined, stranger, 'sk-of-another-service'])
      assert.equal(await statusOf(brain, route, wrong), 401, nameOf(route));
    for (const { role: has, token } of tokens) {
      const status = await statusOf(brain, route, token);
      const what = `${has} asks for ${nameOf(route)}: ${status}`;
      if (grants(has, role)) assert.ok(!isRefused(status), what);
      else assert.equal(status, 403, what);
      assert.ok(status < 500 || status === 503, what);
    }
  }
});

/** The roles of programs: each may do one thing, and contains no other. */
const PROGRAMS: readonly Role[] = ['pool', 'consumer'];

test('roles contain each other, in their order; those of programs contain no other', () => {
  const ladder = ROLES.filter((role) => !PROGRAMS.includes(role));
  for (const [at, has] of ladder.entries())
    for (const [wanted, role] of ladder.entries()) assert.equal(grants(has, role), wanted <= at);
  for (const program of PROGRAMS)
    for (const role of ROLES) {
      if (role !== program) assert.equal(grants(program, role), false);
      const contains = role === program || role === 'operate' || role === 'admin';
      assert.equal(grants(role, program), contains);
    }
});

test('a token with the role of consumers can take jobs, read how many workers are wished, report about both, and nothing else', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const isOpenTo = ({ role }: Route): boolean => role !== 'public' && grants('consumer', role);
  assert.deepEqual(brain.routes.filter(isOpenTo).map(nameOf), [
    'GET /workers/wished',
    'POST /workers/pool/{id}/heartbeat',
    'POST /v2/consumers',
    'POST /v2/consumers/{id}/claim',
    'POST /v2/consumers/{id}/heartbeat',
    'POST /v2/consumers/{id}/events',
    'POST /v2/consumers/{id}/results',
    'DELETE /v2/consumers/{id}',
  ]);
});

test('a token with the role of pool managers can register pools and nothing else', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const isOpenTo = ({ role }: Route): boolean => role !== 'public' && grants('pool', role);
  assert.deepEqual(brain.routes.filter(isOpenTo).map(nameOf), ['POST /v2/pools/register']);
});

test('the tables of the page about the API give every route the role that it has', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const page = readFileSync(new URL('../../docs/http-api.md', import.meta.url), 'utf8');
  const rows = page.matchAll(/^\| `((?:GET|POST|PUT|DELETE) [^` ]+)` \|.*\| (\w+(?:, global)?) \|$/gm);
  const written = new Map([...rows].map(([, name, role]) => [name, role]));
  const accessOf = ({ role, scope }: Route): string => (scope ? `${role}, ${scope}` : role);
  const roles = new Map(brain.routes.map((route) => [nameOf(route), accessOf(route)]));
  for (const [name = '', role] of written) assert.equal(role, roles.get(name), name);
  const later = [
    '/v2/catalog',
    '/v2/pools',
    '/v2/workers',
    '/v2/sessions',
    '/v1/',
    '/leases',
    '/control',
    '/workers',
  ];
  for (const name of roles.keys())
    if (later.some((path) => name.includes(` ${path}`)))
      assert.ok(written.has(name), `${name} is in no table`);
});

test('a refused request leaves a line in the log, with its route and the caller, and never the token', async (t) => {
  const { token, entry } = makeToken(new SeededRandom(3), 0, 'ada', 'read');
  const brain = await httpBrain({ tokens: [entry] });
  t.after(() => brain.stop());
  const wrong = `orchd_${'0'.repeat(40)}`;
  const ask = (path: string, headers: Record<string, string>) => fetch(brain.url + path, { headers });
  await ask('/v2/tasks/some-job?secret=1', { authorization: `Bearer ${wrong}` });
  await ask('/no/such/path', { origin: 'https://elsewhere.example' });
  await fetch(`${brain.url}/v2/tasks/some-job/cancel`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  });
  const lines = refusalsOf(brain);
  assert.deepEqual(
    lines.map(({ error_code, route, address }) => [error_code, route, address]),
    [
      ['UNAUTHORIZED', 'GET /v2/tasks/:id', '127.0.0.1'],
      ['FORBIDDEN', 'none', '127.0.0.1'],
      ['FORBIDDEN', 'POST /v2/tasks/:id/cancel', '127.0.0.1'],
    ],
  );
  assert.match(lines[2]?.['reason'] ?? '', /this needs the role "submit"; the token has "read"/);
  const all = brain.logged.join('');
  for (const text of [wrong, token, 'secret=1', 'some-job']) assert.ok(!all.includes(text), text);
});
