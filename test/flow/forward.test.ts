/** Any node can be asked for anything: what the leader says comes back by way of the others. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';
import { orchd } from './cli-process.ts';
import { Cluster, type Job } from './cluster-kit.ts';
import type { ServerProcess } from './server-process.ts';

let server: OwnServer;
before(async () => {
  server = await ownMariaDb();
});
after(() => server.stop());

const LONG = { timeout: 120_000 };

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: { readonly error?: { readonly code: string } } & Record<string, unknown>;
}

async function ask(node: ServerProcess, path: string, token?: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${node.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Answer['body'],
  };
}

test('a caller has the same rights at every node, and gets the same answers', LONG, async (t) => {
  const cluster = await Cluster.on(t, server);
  const tokenOf = async (role: string): Promise<string> => {
    const { out } = await orchd(['token', 'create', role, '--role', role, '--data', cluster.data, '--json']);
    return (JSON.parse(out) as { token: string }).token;
  };
  const [read, submit, operate] = [await tokenOf('read'), await tokenOf('submit'), await tokenOf('operate')];
  const config = { ...cluster.config('a'), orchestrator: { queue_capacity: 2 } };
  const a = await cluster.start('a', { config });
  await cluster.leads(a);
  const b = await cluster.start('b', { config: { ...config, cluster: { node: 'b', lease_ms: 2000 } } });
  await cluster.until(async () => (await cluster.leaderOf(b)).leader === 'a');
  const job = { job_id: 'one', type: 'nobody', wait_for_backend: true, payload: { text: 'Zürich 🦊' } };
  for (const node of [b, a]) {
    const first = await ask(node, '/v2/tasks', submit, job);
    assert.deepEqual([first.status, first.body['job_id']], [202, 'one'], 'a repeat is the same job');
    const refused: [string, string | undefined, unknown, number, string][] = [
      ['/v2/tasks', read, job, 403, 'FORBIDDEN'],
      ['/v2/tasks', undefined, job, 401, 'UNAUTHORIZED'],
      ['/v2/tasks', submit, { ...job, payload: 'other' }, 409, 'JOB_CONFLICT'],
      ['/v2/tasks', submit, { unknown: 1 }, 400, 'INVALID_PARAMS'],
      ['/v2/tasks/none', read, undefined, 404, 'NOT_FOUND'],
      ['/v2/tasks/none/events', read, undefined, 404, 'NOT_FOUND'],
      ['/v2/tasks/one/redrive', submit, {}, 403, 'FORBIDDEN'],
      ['/v2/tasks/one/redrive', operate, {}, 409, 'ILLEGAL_STATE'],
      ['/leases/none/heartbeat', submit, {}, 409, 'LEASE_NOT_HELD'],
    ];
    for (const [path, token, body, status, code] of refused) {
      const answer = await ask(node, path, token, body);
      assert.deepEqual([answer.status, answer.body.error?.code], [status, code], path);
    }
    const bulk = await ask(node, '/v2/tasks', submit, [
      job,
      { type: 'nobody', wait_for_backend: true },
      5,
      { type: 'nobody', wait_for_backend: true },
    ]);
    const answers = bulk.body['answers'] as { http_status: number }[];
    const full = answers.find(({ http_status }) => http_status === 429);
    assert.deepEqual([bulk.status, answers[0]?.http_status, answers[2]?.http_status], [200, 202, 400]);
    assert.ok(full, 'the queue is full');
    const single = await ask(node, '/v2/tasks', submit, { type: 'nobody', wait_for_backend: true });
    assert.equal(single.status, 429);
    assert.ok(Number(single.headers.get('retry-after')) > 0 && single.headers.has('x-backoff-ms'));
  }
  assert.equal((await ask(b, '/ready', read)).status, 200);
  const forged = await fetch(`${b.url}/v2/tasks`, {
    headers: { authorization: 'Node secret', 'x-orchd-on-behalf-of': 'eyJuYW1lIjoieCIsInJvbGUiOiJhZG1pbiJ9' },
  });
  assert.equal(forged.status, 401);
});

test(
  'while nobody can lead a request is held, then told so; everything goes on when the database is back',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    const config = (node: string) => ({
      ...cluster.config(node),
      cluster: { node, lease_ms: 1000, hold_ms: 300 },
    });
    const a = await cluster.start('a', { config: config('a') });
    await cluster.leads(a);
    const b = await cluster.start('b', { config: config('b') });
    cluster.hold();
    await cluster.submit(b, 'before');
    await cluster.until(() => cluster.ledger().length === 1);
    await server.kill('SIGKILL');
    for (const node of [a, b]) {
      await cluster.until(async () => (await ask(node, '/v2/tasks')).body.error?.code === 'NO_LEADER');
      const { status, headers } = await ask(node, '/v2/tasks', undefined, { type: 'work' });
      assert.ok(status === 503 && Number(headers.get('retry-after')) > 0);
      assert.equal((await ask(node, '/health')).status, 200);
      assert.equal((await cluster.leaderOf(node)).is_leader, false);
    }
    await server.start();
    await cluster.submit(b, 'after');
    cluster.letGo();
    await cluster.allEndedOnce(a);
    assert.equal((await cluster.get<Job>(b, '/v2/tasks/before')).attempts.length, 1, 'it was taken up again');
    await cluster.trailIsWhole();
  },
);

test(
  'a revoked token ends its streams at the node that has accepted it, within five seconds',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    const made = await orchd([
      'token',
      'create',
      'ada',
      '--role',
      'submit',
      '--data',
      cluster.data,
      '--json',
    ]);
    await orchd(['token', 'create', 'bob', '--role', 'submit', '--data', cluster.data]);
    const { token, id } = JSON.parse(made.out) as { token: string; id: string };
    const a = await cluster.start('a', { config: cluster.config('a') });
    await cluster.leads(a);
    const b = await cluster.start('b', { config: cluster.config('b') });
    await cluster.until(async () => (await cluster.leaderOf(b)).leader === 'a');
    assert.equal(
      (await ask(b, '/v2/tasks', token, { job_id: 'waits', type: 'nobody', wait_for_backend: true })).status,
      202,
    );
    const follow = (node: ServerProcess): Promise<Response> =>
      fetch(`${node.url}/v2/tasks/waits/events`, { headers: { authorization: `Bearer ${token}` } });
    const streams = await Promise.all([a, b].map(follow));
    const texts = streams.map((response) => response.text());
    await orchd(['token', 'revoke', id, '--data', cluster.data]);
    const since = performance.now();
    for (const text of texts) assert.match(await text, /event: queued.*event: error\n.*token_revoked/s);
    const ms = performance.now() - since;
    assert.ok(ms < 5000, `${Math.round(ms)} ms`);
  },
);
