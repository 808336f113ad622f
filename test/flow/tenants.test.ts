/**
 * Tenants are kept apart: every route either says that it is global, and then only the default tenant may call it, or
 * has an entry in APART that shows that it reaches nothing of another tenant.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Route } from '../../src/wire/route.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';

const nameOf = ({ method, path }: Pick<Route, 'method' | 'path'>): string => `${method} ${path}`;

/** Stands in everything that belongs to the tenant `lab`, and in nothing that `acme` sends. */
const CANARY = 'canary';
const LEASE = 'ab'.repeat(32);

type Caller = 'lab' | 'acme' | 'operator';

interface Reply {
  readonly status: number;
  readonly text: string;
}

type Ask = (who: Caller, method: string, path: string, body?: object, headers?: object) => Promise<Reply>;

interface Stage {
  readonly brain: HttpBrain;
  readonly ask: Ask;
  readonly tokens: Readonly<Record<Caller, string>>;
}

/** Says what its prompt says: an answer shows whose prompt it was given. */
const echo = { inference: (payload: object) => ({ text: JSON.stringify(payload) }), other: () => CANARY };

async function stage(t: TestContext, options: Partial<HttpBrainOptions> = {}): Promise<Stage> {
  const random = new SeededRandom(7);
  const tokenOf = (name: string, tenant?: string) => makeToken(random, 0, name, 'admin', tenant);
  const made = { lab: tokenOf('ada', 'lab'), acme: tokenOf('ada', 'acme'), operator: tokenOf('ada') };
  const brain = await httpBrain({
    tokens: Object.values(made).map(({ entry }) => entry),
    backends: [{ name: 'engine', slots: 4, models: ['tiny'], types: echo as never }],
    config: JSON.stringify({ limits: [{ scope: `agent:lab/${CANARY}`, concurrency: 1000 }] }),
    ...options,
  });
  t.after(() => brain.stop());
  const ask: Ask = async (who, method, path, body, headers = {}) => {
    const response = await fetch(brain.url + path, {
      method,
      headers: {
        authorization: `Bearer ${made[who].token}`,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  const tokens = { lab: made.lab.token, acme: made.acme.token, operator: made.operator.token };
  return { brain, ask, tokens };
}

const CHAT = { model: 'tiny', messages: [{ role: 'user', content: 'mine' }] };
const CHAT_KEY = { 'idempotency-key': 'chat' };
const TEXT_KEY = { 'idempotency-key': 'text' };

const toolCall = (name: string, args: object): object => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: args },
});

/** The things of `lab`, under names that another tenant can guess. */
async function furnish(ask: Ask): Promise<void> {
  const mine = async (method: string, path: string, body: object, headers?: object): Promise<void> => {
    const { status, text } = await ask('lab', method, path, body, headers);
    assert.ok(status < 300, `${method} ${path}: ${status} ${text}`);
  };
  const job = { prompt: CANARY, agent: CANARY, session_id: 's', key: 'k', not_before: 4e12, batch: 'b' };
  await mine('POST', '/v2/tasks', { ...job, job_id: 'waits' });
  await mine('POST', '/v2/tasks', { job_id: 'done', type: 'other', agent: CANARY });
  await mine('POST', '/v2/batches', { batch_id: 'b', name: CANARY });
  await mine('PUT', '/v2/sessions/s', { token_budget: 12_345 });
  await mine('POST', '/leases', { token: LEASE, agent: CANARY });
  await mine('PUT', '/v2/limits', { limits: [{ scope: `session:lab/${CANARY}`, concurrency: 1000 }] });
  await mine('PUT', '/v2/schedules/s', { every_sec: 86_400, job: { type: 'other', payload: CANARY } });
  const chat = { model: 'tiny', messages: [{ role: 'user', content: CANARY }] };
  await mine('POST', '/v1/chat/completions', chat, CHAT_KEY);
  await mine('POST', '/v1/completions', { model: 'tiny', prompt: CANARY }, TEXT_KEY);
}

/** All that `lab` has, as it sees it itself. */
async function belongings(ask: Ask): Promise<string> {
  const read = async (path: string): Promise<string> => (await ask('lab', 'GET', path)).text;
  const paths = [
    '/v2/batches/b',
    '/v2/batches',
    '/v2/tasks/waits',
    '/v2/tasks/done',
    '/v2/sessions/s',
    '/leases',
    '/v2/limits',
    '/v2/schedules/s',
  ];
  const texts = await Promise.all([...paths, '/v2/tasks?limit=100'].map(read));
  return texts
    .join('\n')
    .replaceAll(/"(expires_at|waited_ms|predicted_start_ms|predicted_end_ms)":[^,}]*/g, '"$1":0');
}

interface Case {
  readonly path?: string;
  readonly body?: object;
  readonly headers?: object;
  /** The status that `acme` gets. */
  readonly status: number;
  readonly answer?: RegExp;
}

/** What `acme` asks of each route that is not global, and what it is told. None of it may show or change what `lab` has. */
const APART: Readonly<Record<string, readonly Case[]>> = {
  'POST /v2/tasks': [
    {
      body: { job_id: 'waits', prompt: 'mine', not_before: 4e12 },
      status: 202,
      answer: /^(?!.*duplicate_of)/,
    },
    { body: { job_id: 'mine', key: 'k', prompt: 'mine' }, status: 202, answer: /^(?!.*duplicate_of)/ },
    { body: { parent_id: 'done', prompt: 'mine' }, status: 422, answer: /parent_ended/ },
    { body: { after: ['done'], prompt: 'mine' }, status: 422, answer: /unknown_dependency/ },
  ],
  'GET /v2/tasks': [
    { path: '/v2/tasks?limit=100', status: 200 },
    { path: '/v2/tasks?id_prefix=wait', status: 200, answer: /^(?!.*"job_id".*"job_id")/ },
    { path: '/v2/tasks?id_prefix=done', status: 200, answer: /"jobs":\[\]/ },
  ],
  'GET /v2/tasks/:id': [{ path: '/v2/tasks/done', status: 404 }],
  'POST /jobs/submit': [
    { body: { job_id: 'row', type: 'inference', payload: { prompt: 'mine' } }, status: 202 },
  ],
  'GET /jobs/:id': [{ path: '/jobs/done', status: 404 }],
  'POST /v2/tasks/:id/cancel': [{ path: '/v2/tasks/done/cancel', status: 404 }],
  'POST /v2/tasks/:id/redrive': [{ path: '/v2/tasks/done/redrive', status: 404 }],
  'POST /v2/tasks/:id/resolve': [{ path: '/v2/tasks/done/resolve', body: { as: 'failed' }, status: 404 }],
  'GET /v2/tasks/:id/events': [{ path: '/v2/tasks/done/events', status: 404 }],
  'POST /v2/tasks/cancel': [{ body: { batch: 'b' }, status: 200, answer: /"matched":0/ }],
  'POST /v2/tasks/redrive': [{ body: { batch: 'b' }, status: 200, answer: /"matched":0/ }],
  'GET /v2/agents': [{ status: 200, answer: /"agents":\[\]/ }],
  'POST /v2/agents/:name/runs': [{ path: '/v2/agents/none/runs', body: { input: 'mine' }, status: 404 }],
  'GET /v2/runs/:id': [{ path: '/v2/runs/done', status: 404 }],
  'GET /v2/runs/:id/events': [{ path: '/v2/runs/done/events', status: 404 }],
  'POST /v2/runs/:id/cancel': [{ path: '/v2/runs/done/cancel', status: 404 }],
  'POST /v2/runs/:id/pause': [{ path: '/v2/runs/done/pause', status: 404 }],
  'POST /v2/runs/:id/resume': [{ path: '/v2/runs/done/resume', status: 404 }],
  'POST /v2/runs/:id/decide': [
    { path: '/v2/runs/done/decide', body: { call_id: 'done.1', as: 'failed' }, status: 404 },
  ],
  'GET /v2/approvals': [{ status: 200, answer: /"approvals":\[\]/ }],
  'POST /v2/runs/:id/approve': [
    { path: '/v2/runs/done/approve', body: { call_id: 'done', approve: true }, status: 404 },
  ],
  'POST /v2/runs/:id/replay': [{ path: '/v2/runs/done/replay', body: {}, status: 404 }],
  'GET /v2/runs/:id/record': [{ path: '/v2/runs/done/record', status: 404 }],
  'POST /v2/runs/:id/fork': [{ path: '/v2/runs/done/fork', body: { step: 1 }, status: 404 }],
  'POST /v2/batches': [{ body: { batch_id: 'b', name: 'mine' }, status: 200, answer: /"jobs":0/ }],
  'GET /v2/batches': [{ status: 200, answer: /"name":"mine"/ }],
  'GET /v2/batches/:id': [{ path: '/v2/batches/b', status: 200, answer: /"jobs":0/ }],
  'GET /v2/batches/:id/results': [{ path: '/v2/batches/b/results', status: 200, answer: /^$/ }],
  'GET /leases': [{ status: 200, answer: /"leases":\[\]/ }],
  'POST /leases': [{ body: { token: LEASE }, status: 409 }],
  'POST /leases/:token/heartbeat': [{ path: `/leases/${LEASE}/heartbeat`, body: {}, status: 409 }],
  'POST /leases/:token/release': [{ path: `/leases/${LEASE}/release`, status: 409 }],
  'GET /v2/sessions': [
    { status: 200, answer: /"sessions":\[\]/ },
    { path: '/v2/sessions?archived=true', status: 200, answer: /"sessions":\[\]/ },
  ],
  'POST /v2/sessions': [{ body: { session_id: 'mine' }, status: 201, answer: /"messages":0/ }],
  'GET /v2/sessions/:id/messages': [{ path: '/v2/sessions/s/messages', status: 404 }],
  'GET /v2/sessions/:id/export': [{ path: '/v2/sessions/s/export', status: 404 }],
  'PUT /v2/sessions/:id/metadata': [{ path: '/v2/sessions/s/metadata', body: { mode: 'mine' }, status: 404 }],
  'POST /v2/sessions/:id/fork': [{ path: '/v2/sessions/s/fork', body: {}, status: 404 }],
  'GET /v2/sessions/:id': [{ path: '/v2/sessions/s', status: 404 }],
  'PUT /v2/sessions/:id': [{ path: '/v2/sessions/s', body: { token_budget: 5 }, status: 200, answer: /:5,/ }],
  'DELETE /v2/sessions/:id': [{ path: '/v2/sessions/s', status: 204 }],
  'GET /v2/limits': [{ status: 200, answer: /"limits":\[\],"imposed":\[\]/ }],
  'PUT /v2/limits': [
    { body: { limits: [] }, status: 200 },
    { body: { limits: [{ scope: 'tenant:lab', concurrency: 1 }] }, status: 400 },
    { body: { limits: [{ scope: 'agent:lab/x', concurrency: 1 }] }, status: 400 },
    { body: { limits: [{ scope: 'session:lab/s', concurrency: 1 }] }, status: 400 },
    { body: { limits: [{ scope: 'token:lab/ada', concurrency: 1 }] }, status: 400 },
    { body: { limits: [{ scope: 'token:ada', concurrency: 1 }] }, status: 400 },
    { body: { limits: [{ scope: 'own-agent:lab/x', concurrency: 1 }] }, status: 400 },
    ...['global', 'tenant:*', 'agent:*', 'token:*', 'session:*', 'model:tiny', 'pool:p'].map((scope) => ({
      body: { limits: [{ scope, concurrency: 1 }] },
      status: 400,
    })),
  ],
  'GET /v2/schedules': [{ status: 200, answer: /"schedules":\[\]/ }],
  'GET /v2/schedules/:name': [{ path: '/v2/schedules/s', status: 404 }],
  'PUT /v2/schedules/:name': [
    {
      path: '/v2/schedules/s',
      body: { every_sec: 86_400, job: { type: 'inference', prompt: 'mine' } },
      status: 200,
      answer: /"prompt":"mine"/,
    },
  ],
  'DELETE /v2/schedules/:name': [{ path: '/v2/schedules/s', status: 204 }],
  'GET /v2/prices': [{ status: 200, answer: /"currency":"USD"/ }],
  'GET /v2/usage': [{ path: '/v2/usage?by=principal,session', status: 200, answer: /"groups":\[/ }],
  'GET /v2/usage/ledger': [{ status: 200 }],
  'GET /v2/catalog/models': [{ status: 200 }],
  'GET /v2/catalog/routes': [{ status: 200 }],
  'GET /v2/catalog/routes/:id': [{ path: '/v2/catalog/routes/none', status: 404 }],
  'GET /v2/catalog/models/:id': [{ path: '/v2/catalog/models/tiny', status: 404 }],
  'POST /mcp': [
    { body: toolCall('get_job', { job_id: 'done' }), status: 200, answer: /NOT_FOUND/ },
    { body: toolCall('wait_for_job', { job_id: 'done' }), status: 200, answer: /NOT_FOUND/ },
    { body: toolCall('cancel_job', { job_id: 'waits' }), status: 200, answer: /"state":"cancelled"/ },
    { body: toolCall('list_jobs', {}), status: 200 },
    { body: toolCall('get_run', { run_id: 'done' }), status: 200, answer: /NOT_FOUND/ },
  ],
  'POST /v1/chat/completions': [{ body: CHAT, headers: CHAT_KEY, status: 200, answer: /mine/ }],
  'POST /v1/completions': [
    { body: { model: 'tiny', prompt: 'mine' }, headers: TEXT_KEY, status: 200, answer: /mine/ },
  ],
  // The engine of this test cannot embed; the job is the caller's own.
  'POST /v1/embeddings': [{ body: { model: 'tiny', input: 'mine' }, status: 422 }],
  'GET /v1/models': [{ status: 200, answer: /tiny/ }],
  'GET /v1/models/:id': [{ path: '/v1/models/tiny', status: 200 }],
  'GET /v2/meta/capabilities': [{ status: 200, answer: /^(?!.*"used")/ }],
  'GET /v2/meta/status': [
    // The one `waiting` that is there counts jobs in that state, of the tenant alone; that of a model counts all tenants.
    {
      status: 200,
      answer: /^(?!.*"(used|totals|ready)":)(?!.*"waiting":.*"waiting":)(?=.*"jobs":\{[^}]*"waiting":0)/,
    },
  ],
  'GET /health': [{ status: 200 }],
  'GET /ready': [{ status: 200 }],
  'GET /leader': [{ status: 200 }],
  'GET /openapi.json': [{ status: 200 }],
};

test('every route is global, or keeps what belongs to one tenant from another', async (t) => {
  const { brain, ask } = await stage(t);
  await furnish(ask);
  const before = await belongings(ask);
  assert.ok(before.split(CANARY).length > 4, 'the tenant has something to lose');
  for (const route of brain.routes) {
    const cases = APART[nameOf(route)];
    const { scope } = route;
    assert.ok(
      scope === 'global' || cases,
      `${nameOf(route)}: state its scope, or show that it keeps tenants apart`,
    );
    assert.ok(scope === undefined || !cases, `${nameOf(route)} is global, so it needs no case`);
    for (const { path = route.path, body, headers, status, answer } of cases ?? []) {
      const reply = await ask('acme', route.method, path, body, headers);
      const what = `${nameOf(route)} ${JSON.stringify(body)}: ${reply.status} ${reply.text}`;
      assert.equal(reply.status, status, what);
      assert.ok(!reply.text.includes(CANARY), what);
      if (answer) assert.match(reply.text, answer, what);
      assert.equal(await belongings(ask), before, what);
    }
  }
  assert.equal(
    Object.keys(APART).length,
    brain.routes.filter(({ scope }) => !scope).length,
    'no case is left over',
  );
});

test('the status counts the live jobs of the tenant alone, and for the operator those of all', async (t) => {
  const { ask } = await stage(t);
  const job = { prompt: 'x', not_before: 4e12 };
  for (const who of ['lab', 'lab', 'acme'] as const)
    assert.equal((await ask(who, 'POST', '/v2/tasks', job)).status, 202);
  const queued = async (who: Caller): Promise<number> => {
    const { text } = await ask(who, 'GET', '/v2/meta/status');
    return (JSON.parse(text) as { jobs: { queued: number } }).jobs.queued;
  };
  assert.deepEqual([await queued('lab'), await queued('acme'), await queued('operator')], [2, 1, 3]);
});

test('a global route refuses an admin of any tenant but the default, before it reads the body', async (t) => {
  const { brain, ask } = await stage(t);
  const global = brain.routes.filter(({ scope }) => scope === 'global');
  assert.ok(global.length >= 11);
  for (const route of global) {
    const path = route.path.replace(/:\w+/g, 'nobody');
    const body = route.method === 'GET' ? undefined : { no: 'such field' };
    const { status, text } = await ask('acme', route.method, path, body);
    assert.equal(status, 403, nameOf(route));
    const { error } = JSON.parse(text) as { error: Record<string, string> };
    assert.deepEqual([error['code'], error['reason']], ['FORBIDDEN', 'global_scope']);
    assert.match(error['message'] ?? '', /tenant "default"; the token is of "acme"/);
    assert.notEqual((await ask('operator', route.method, path, body)).status, 403, nameOf(route));
  }
});

test('OpenAPI says which routes are global', async (t) => {
  const { brain, ask } = await stage(t);
  const document = JSON.parse((await ask('acme', 'GET', '/openapi.json')).text) as {
    paths: Record<string, Record<string, { 'x-scope'?: string }>>;
  };
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  assert.ok(operations.filter((operation) => operation['x-scope'] === 'global').length >= 11);
  for (const { method, path, scope } of brain.routes) {
    const written = document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
    assert.equal(written?.['x-scope'], scope, path);
  }
});

test("a tenant's own limits hold beside the operator's, and neither lifts the other's", async (t) => {
  const { ask } = await stage(t);
  const put = (who: Caller, limits: object[]) => ask(who, 'PUT', '/v2/limits', { limits });
  const submit = async (who: Caller, agent: string): Promise<number> =>
    (await ask(who, 'POST', '/v2/tasks', { prompt: 'x', agent, not_before: 4e12 })).status;
  assert.equal((await put('operator', [{ scope: 'agent:acme/bob', concurrency: 1 }])).status, 200);
  const seen = await ask('acme', 'GET', '/v2/limits');
  assert.match(seen.text, /"imposed":\[\{"scope":"agent:acme\/bob","concurrency":1\}\]/);
  assert.equal((await put('acme', [{ scope: 'agent:acme/bob', concurrency: 1000 }])).status, 200);
  assert.deepEqual([await submit('acme', 'bob'), await submit('acme', 'bob')], [202, 429]);
  assert.equal((await put('acme', [{ scope: 'agent:acme/eve', concurrency: 1 }])).status, 200);
  assert.deepEqual(
    [await submit('acme', 'eve'), await submit('acme', 'eve')],
    [202, 429],
    "the tenant's own holds",
  );
  assert.equal(await submit('acme', 'bob'), 429, "the operator's holds");
  assert.deepEqual([await submit('lab', 'eve'), await submit('lab', 'eve')], [202, 202], 'for nobody else');
  const operator = JSON.parse((await ask('operator', 'GET', '/v2/limits')).text) as { limits: object[] };
  assert.deepEqual(operator, { limits: [{ scope: 'agent:acme/bob', concurrency: 1 }] });
  assert.equal((await put('operator', [])).status, 200);
  assert.equal(await submit('acme', 'bob'), 202);
  assert.equal(await submit('acme', 'eve'), 429, "the operator's order leaves the tenant's own limits");
});

test('the operator sees and releases the leases of all tenants', async (t) => {
  const { ask } = await stage(t);
  await ask('lab', 'POST', '/leases', { token: LEASE });
  const { text } = await ask('operator', 'GET', '/leases');
  const { leases } = JSON.parse(text) as { leases: { token: string; tenant: string }[] };
  assert.deepEqual(
    leases.map(({ token, tenant }) => [token, tenant]),
    [[LEASE, 'lab']],
  );
  assert.equal((await ask('operator', 'POST', `/leases/${LEASE}/heartbeat`, {})).status, 409);
  assert.equal((await ask('operator', 'POST', `/leases/${LEASE}/release`)).status, 200);
  assert.equal((await ask('lab', 'POST', `/leases/${LEASE}/heartbeat`, {})).status, 409);
});

test('tokens of the same name in two tenants share no limit', async (t) => {
  const { ask } = await stage(t);
  await ask('operator', 'PUT', '/v2/limits', { limits: [{ scope: 'token:ada', concurrency: 1 }] });
  const submit = async (who: Caller): Promise<number> =>
    (await ask(who, 'POST', '/v2/tasks', { prompt: 'x', not_before: 4e12 })).status;
  assert.deepEqual([await submit('acme'), await submit('acme')], [202, 429]);
  assert.deepEqual([await submit('lab'), await submit('operator')], [202, 202]);
});

test('the streams of one tenant leave room for those of others', async (t) => {
  const { brain, ask, tokens } = await stage(t, { maxStreamsPerTenant: 2 });
  const everybody = ['lab', 'acme', 'operator'] as const;
  const job = { job_id: 'waits', prompt: 'x', not_before: 4e12 };
  for (const who of everybody) assert.equal((await ask(who, 'POST', '/v2/tasks', job)).status, 202);
  const leave = new AbortController();
  t.after(() => leave.abort());
  const follow = async (who: Caller): Promise<number> => {
    const headers = { authorization: `Bearer ${tokens[who]}` };
    const { signal } = leave;
    return (await fetch(`${brain.url}/v2/tasks/waits/events`, { headers, signal })).status;
  };
  assert.deepEqual([await follow('lab'), await follow('lab'), await follow('lab')], [200, 200, 429]);
  assert.equal(await follow('acme'), 200);
  for (let n = 0; n < 4; n++)
    assert.equal(await follow('operator'), 200, 'the default tenant has no limit of its own');
});

test('a caller that may only submit cannot lift the budget of a session by deleting it', async (t) => {
  const random = new SeededRandom(9);
  const [submit, operate] = (['submit', 'operate'] as const).map((role) => makeToken(random, 0, role, role));
  const { brain } = await stage(t, { tokens: [submit!.entry, operate!.entry] });
  const ask = async (token: string, method: string, body?: object): Promise<number> => {
    const isJob = method === 'POST';
    const response = await fetch(`${brain.url}/v2/${isJob ? 'tasks' : 'sessions/s'}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    await response.text();
    return response.status;
  };
  const job = { prompt: 'x', session_id: 's', max_tokens: 100, not_before: 4e12 };
  assert.equal(await ask(operate!.token, 'PUT', { token_budget: 10 }), 200);
  assert.equal(await ask(submit!.token, 'POST', job), 422);
  assert.equal(await ask(submit!.token, 'DELETE'), 204);
  assert.equal(await ask(submit!.token, 'POST', job), 422, 'the budget holds');
  assert.equal(await ask(operate!.token, 'DELETE'), 204);
  assert.equal(await ask(submit!.token, 'GET'), 404);
  assert.equal(await ask(submit!.token, 'POST', job), 202);
});
