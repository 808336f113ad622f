/** Leases over HTTP, on every store. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { tempFolder } from './flow-kit.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

interface Lease {
  readonly granted?: boolean;
  readonly token: string;
  readonly gpu_index: number | null;
  readonly mode: string;
  readonly fence: number;
  readonly granted_at: number;
  readonly expires_at: number;
}

const GPUS = { gpus: [{ index: 2, memory_mb: 1000 }] };

async function call(brain: HttpBrain, path: string, body?: object): Promise<{ status: number; body: never }> {
  const response = await fetch(`${brain.url}${path}`, {
    method: body ? 'POST' : 'GET',
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as never };
}

async function granted(brain: HttpBrain, body: object): Promise<Lease> {
  const answer = await call(brain, '/leases', body);
  assert.equal(answer.status, 200);
  return answer.body;
}

const NOT_HELD = [409, 'LEASE_NOT_HELD'];

/** Status and error code of a request. */
async function outcome(brain: HttpBrain, path: string, body: object): Promise<unknown[]> {
  const answer = await call(brain, path, body);
  return [answer.status, (answer.body as { error?: { code: string } }).error?.code];
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Waits until a lease is no longer listed. */
async function ended(brain: HttpBrain, token: string): Promise<void> {
  const isHeld = async (): Promise<boolean> =>
    ((await call(brain, '/leases')).body as { leases: Lease[] }).leases.some(
      (lease) => lease.token === token,
    );
  while (await isHeld()) await nextTurn();
}

for (const store of ['journal', 'mariadb'] as const) {
  test(`[NEWS-2] a lease is granted, kept, listed, given back, ended by time, and outlives a restart (${store})`, async (t) => {
    const options: HttpBrainOptions = {
      data: tempFolder(t),
      config: JSON.stringify(
        store === 'journal'
          ? { leases: GPUS }
          : { leases: GPUS, store, mariadb: { url: await server.database() } },
      ),
    };
    let brain = await httpBrain(options);
    const stop = () => brain.stop();
    t.after(stop);
    const first = await granted(brain, { agent: 'trainer', min_memory_mb: 800, ttl_seconds: 600 });
    assert.deepEqual([first.granted, first.gpu_index, first.mode], [true, 2, 'gpu']);
    const second = await granted(brain, { agent: 'other', min_memory_mb: 800 });
    assert.deepEqual([second.gpu_index, second.mode], [null, 'cpu'], 'no GPU fits');
    assert.ok(second.fence > first.fence);
    while (Date.now() <= first.granted_at) await nextTurn();
    const beat = await call(brain, `/leases/${first.token}/heartbeat`, { timestamp: 'now' });
    assert.ok((beat.body as Lease).expires_at > first.expires_at);
    const short = await granted(brain, { ttl_seconds: 1 });
    await ended(brain, short.token);
    for (const token of [short.token, 'unknown']) {
      for (const what of ['heartbeat', 'release']) {
        assert.deepEqual(await outcome(brain, `/leases/${token}/${what}`, {}), NOT_HELD);
      }
    }
    await brain.stop();
    brain = await httpBrain(options);
    const { leases } = (await call(brain, '/leases')).body as { leases: Lease[] };
    assert.deepEqual(
      leases.map(({ token, fence }) => [token, fence]).sort(),
      [
        [first.token, first.fence],
        [second.token, second.fence],
      ].sort(),
    );
    assert.equal((await call(brain, `/leases/${first.token}/release`, {})).status, 200);
    assert.equal((await call(brain, `/leases/${first.token}/heartbeat`, {})).status, 409);
    assert.equal(
      (await granted(brain, { min_memory_mb: 800 })).gpu_index,
      2,
      'what was given back is lent again',
    );
    for (const bad of [{ min_memory_mb: -1 }, { ttl_seconds: 0 }, { agent: 5 }, { gpu: 1 }]) {
      assert.equal((await call(brain, '/leases', bad)).status, 400, JSON.stringify(bad));
    }
  });
}

test('[NEWS-2] what a holder writes after the end of its lease is refused, also when its token was granted anew', async (t) => {
  const brain = await httpBrain({ data: tempFolder(t) });
  t.after(() => brain.stop());
  const token = 'a'.repeat(64);
  const first = await granted(brain, { token, ttl_seconds: 600 });
  const write = (job_id: string, { fence }: Pick<Lease, 'fence'>): Promise<unknown[]> =>
    outcome(brain, '/v2/tasks', { job_id, prompt: 'x', wait_for_backend: true, lease: { token, fence } });
  assert.deepEqual(await write('held', first), [202, undefined]);
  assert.deepEqual(await write('guessed', { fence: first.fence + 1 }), NOT_HELD);
  await call(brain, `/leases/${token}/release`, {});
  assert.deepEqual(await write('late', first), NOT_HELD, 'it was given back');
  const short = await granted(brain, { token, ttl_seconds: 1 });
  await ended(brain, token);
  assert.deepEqual(await write('late', short), NOT_HELD, 'it has expired');
  const second = await granted(brain, { token, ttl_seconds: 600 });
  assert.ok(second.fence > short.fence && short.fence > first.fence);
  for (const { fence } of [first, short]) {
    assert.deepEqual(await write('late', { fence }), NOT_HELD);
    for (const what of ['heartbeat', 'release'])
      assert.deepEqual(await outcome(brain, `/leases/${token}/${what}`, { fence }), NOT_HELD, what);
  }
  assert.equal((await call(brain, '/v2/tasks/late')).status, 404, 'nothing of it was written');
  assert.deepEqual(await write('held', first), [202, undefined], 'a repeat of what was written is told so');
  assert.deepEqual(await write('late', second), [202, undefined]);
  const { fence } = second;
  assert.deepEqual(await outcome(brain, `/leases/${token}/heartbeat`, { fence }), [200, undefined]);
  const released = await fetch(`${brain.url}/leases/${token}/release`, { method: 'POST' });
  assert.equal(released.status, 200, 'the fence may be left out, and the body too');
});

test('[NEWS-2] the grant, the release and the expiry of a lease are audited', async (t) => {
  const url = await server.database();
  const config = JSON.stringify({ store: 'mariadb', mariadb: { url } });
  const brain = await httpBrain({ data: tempFolder(t), config });
  t.after(() => brain.stop());
  const short = await granted(brain, { ttl_seconds: 1 });
  const kept = await granted(brain, { ttl_seconds: 600 });
  await call(brain, `/leases/${kept.token}/release`, {});
  await ended(brain, short.token);
  const sql = await connector(url)();
  t.after(() => sql.close());
  const told = async ({ token }: Lease): Promise<string[]> => {
    const query = 'SELECT event_type FROM orchestrator_audit WHERE subject = ? ORDER BY id';
    return (await sql.query<{ event_type: string }>(query, [token])).map(({ event_type }) => event_type);
  };
  assert.deepEqual(await told(short), ['lease:granted', 'lease:expired']);
  assert.deepEqual(await told(kept), ['lease:granted', 'lease:released']);
});

const HOUR_MS = 3_600_000;

/** A machine whose clock is off by so much. */
function offBy(ms: number): Env {
  const env = realEnv();
  return { ...env, clock: { ...env.clock, now: () => env.clock.now() + ms } };
}

test('[NEWS-2] the times of leases are those of the database, which is an hour ahead of one node and behind another', async (t) => {
  const url = await server.database();
  const config = JSON.stringify({ store: 'mariadb', mariadb: { url } });
  const sql = await connector(url)();
  t.after(() => sql.close());
  /** The seconds that are left of a lease, as the row and the clock of the database say. */
  const left = async ({ token }: Lease): Promise<number> => {
    const query =
      'SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires_at) AS s FROM orchestrator_leases WHERE token = ?';
    const [row] = await sql.query<{ s: number }>(query, [token]);
    return Number(row?.s);
  };
  let lease: Lease | undefined;
  for (const ms of [-HOUR_MS, HOUR_MS]) {
    const brain = await httpBrain({ data: tempFolder(t), config, env: offBy(ms) });
    t.after(() => brain.stop());
    const { leases } = (await call(brain, '/leases')).body as { leases: Lease[] };
    assert.deepEqual(
      leases.map(({ token }) => token),
      lease ? [lease.token] : [],
      'what another node has granted is held',
    );
    const short = await granted(brain, { ttl_seconds: 1 });
    await ended(brain, short.token);
    if (lease) assert.equal((await call(brain, `/leases/${lease.token}/release`, {})).status, 200);
    lease = await granted(brain, { ttl_seconds: 1800 });
    const seconds = await left(lease);
    assert.ok(seconds > 0 && seconds <= 1800, `${seconds} seconds are left`);
    await brain.stop();
  }
});
