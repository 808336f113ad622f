/** Every change of state is a row that says what, why and when. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createOrchestrator, OrchdError } from '../../src/index.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { eventually } from './site-client.ts';
import { endsOf, Site } from './site-kit.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

interface Row {
  readonly id: number;
  readonly subject: string;
  readonly event_type: string;
  readonly details: string;
}

test('[NEWS-12] every major change of a job, its attempts, a lease and the brain leaves a row in the trail', async (t) => {
  const url = await server.database();
  const config = JSON.stringify({
    store: 'mariadb',
    mariadb: { url },
    orchestrator: { retry: { max_tries: 2, base_delay_ms: 1 } },
  });
  let fails = true;
  const types = {
    good: () => 'secret answer',
    bad: () => {
      if (fails) throw new OrchdError('WORKER_TIMEOUT');
      return 'better';
    },
    never: (_: never, { signal }: { signal: AbortSignal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopped')));
      }),
  };
  const brain = await createOrchestrator({ config, backends: [{ name: 'b', slots: 4, types }] });
  t.after(() => brain.stop());
  await brain.submit({ job_id: 'good', type: 'good', payload: 'secret question' });
  await brain.wait('good');
  await brain.submit({ job_id: 'bad', type: 'bad' });
  assert.equal((await brain.wait('bad')).state, 'dead');
  fails = false;
  await brain.redrive('bad');
  assert.equal((await brain.wait('bad')).state, 'succeeded');
  await brain.submit({ job_id: 'never', type: 'never' });
  await brain.cancel('never');
  await brain.wait('never');
  const lease = await brain.leases.grant({ agent: 'x', minMemoryMb: 0, ttlMs: 60_000 }, 'default');
  await brain.leases.release(lease.token, 'default');
  const { seq } = engineOf(brain).state;

  const sql = await connector(url)();
  t.after(() => sql.close());
  const rows = await sql.query<Row>(
    'SELECT id, subject, event_type, details FROM orchestrator_audit WHERE id <= ? ORDER BY id',
    [seq],
  );
  assert.deepEqual(
    rows.map(({ id }) => id),
    Array.from({ length: seq }, (_, at) => at + 1),
    'one row for each change, in order',
  );
  const told = (subject: string): string[] =>
    rows.filter((row) => row.subject === subject).map(({ event_type }) => event_type);
  const states = (subject: string): unknown[] =>
    rows
      .filter((row) => row.subject === subject && row.event_type.startsWith('job:'))
      .map(({ details }) => (JSON.parse(details) as { after: { state: string } }).after.state);
  assert.deepEqual(states('good'), ['claimed', 'running', 'succeeded']);
  assert.deepEqual(states('bad'), [
    ...['claimed', 'running', 'failed', 'queued', 'claimed', 'running', 'failed', 'dead'],
    ...['queued', 'claimed', 'running', 'succeeded'],
  ]);
  assert.equal(states('never').at(-1), 'cancelled');
  for (const job of ['good', 'bad', 'never']) assert.ok(told(job)[0]?.startsWith('ask:'), job);
  assert.deepEqual(
    rows.filter(({ subject }) => subject === 'good:1').map(({ event_type }) => event_type.split(':')[0]),
    ['attempt', 'attempt', 'attempt'],
  );
  assert.deepEqual(told(lease.token), ['lease:granted', 'lease:released']);
  assert.equal(told('brain')[0], 'brain:open');
  assert.doesNotMatch(JSON.stringify(rows), /secret question/, 'payloads are in the row of their job only');
});

test('[NEWS-12] every major change of a model, a pool, a worker, a session, the limits and the prices leaves a row in the trail', async (t) => {
  const url = await server.database();
  const { client } = await Site.start(endsOf(t), { config: { store: 'mariadb', mariadb: { url } } });
  await client.register('m');
  await client.done('PUT', '/v2/sessions/s', { token_budget: 1000 });
  await client.becomes(await client.submit({ model: 'm', prompt: 'x', session_id: 's' }), 'succeeded');
  const { worker_id } = await client.worker('demo:m', 'ready');
  await client.done('POST', '/v2/pools/box/drain', {});
  await eventually('its worker is gone', async () => (await client.workers()).length === 0);
  await client.done('POST', '/v2/pools/box/drain', { undo: true });
  await client.done('DELETE', '/v2/sessions/s');
  await client.done('PUT', '/v2/limits', { limits: [{ scope: 'global', concurrency: 5 }] });
  await client.done('PUT', '/v2/prices', { prices: [{ model: 'm', request: 1 }] });
  await client.done('POST', '/v2/catalog/models/m/state', { state: 'Retired' });
  const sql = await connector(url)();
  t.after(() => sql.close());
  const rows = await sql.query<Row>('SELECT id, subject, event_type FROM orchestrator_audit ORDER BY id');
  const told = (kind: string, subject: string): string[] =>
    rows
      .filter((row) => row.subject === subject && row.event_type.startsWith(`${kind}:`))
      .map(({ event_type }) => event_type.slice(kind.length + 1));
  assert.deepEqual(told('model', 'm'), ['registered', 'retired']);
  assert.deepEqual(told('session', 'default~s'), ['budget', 'used', 'deleted']);
  assert.deepEqual(told('pool', 'box'), ['drain:local', 'undrain:local']);
  const drained = 'its pool was drained by local';
  const life = ['start:demand', 'ready', `stopping:${drained}`, `stopped:${drained}`];
  assert.deepEqual(told('worker', worker_id), life);
  assert.deepEqual(told('limits', 'limits'), ['set:local']);
  assert.deepEqual(told('prices', 'prices'), ['set:local']);
});
