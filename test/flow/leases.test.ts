/** Leases over HTTP, on every store. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
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
    const beat = await call(brain, `/leases/${first.token}/heartbeat`, { timestamp: 'now' });
    assert.ok((beat.body as Lease).expires_at >= first.expires_at);
    const short = await granted(brain, { ttl_seconds: 1 });
    const ended = async (): Promise<boolean> =>
      !((await call(brain, '/leases')).body as { leases: Lease[] }).leases.some(
        ({ token }) => token === short.token,
      );
    while (!(await ended())) await new Promise((resolve) => setImmediate(resolve));
    for (const token of [short.token, 'unknown']) {
      for (const what of ['heartbeat', 'release']) {
        const { status, body } = await call(brain, `/leases/${token}/${what}`, {});
        assert.deepEqual([status, (body as { error: { code: string } }).error.code], [409, 'LEASE_NOT_HELD']);
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
