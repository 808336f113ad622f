import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, START } from '../../test/fakes/engine-kit.ts';
import type { JobBundle } from '../core/ports/store.ts';
import { EndedJobs } from '../stores/ended-jobs.ts';
import { jobsWithPrefix } from './id-prefix.ts';
import type { ListingParts } from './listing.ts';

const bundle = (n: number, id: string, tenant = 'default'): JobBundle =>
  ({
    uid: tenant === 'default' ? id : `${tenant}~${id}`,
    ask: { id, tenant, n, spec: {}, createdAt: 0 },
    job: { state: 'succeeded' },
    attempts: [],
    seq: n,
  }) as unknown as JobBundle;

/** Parts over these ended jobs; `read` counts the jobs that were read from the history. */
function partsOf(ended: readonly JobBundle[], kit = new EngineKit()): ListingParts & { read: number } {
  const jobs = new EndedJobs();
  for (const each of ended) jobs.put(each);
  return {
    read: 0,
    state: kit.engine.state,
    queue: kit.engine.queue,
    history: {
      get: async (uid) => jobs.get(uid),
      list: async () => [],
      async between(...query) {
        const found = jobs.between(...query);
        parts.read += found.length;
        return found;
      },
      count: async () => 0,
    },
    durable: async () => undefined,
    timers: { soon: (run) => void setImmediate(run), after: () => () => undefined },
    now: () => START,
  };
}

let parts: ListingParts & { read: number };
const found = async (id_prefix: string, tenant = 'default', limit = 5): Promise<string[]> =>
  (await jobsWithPrefix(parts, { id_prefix, limit }, tenant)).jobs.map(({ job_id }) => job_id);

test('the jobs of a tenant whose name begins like the id are passed over, however many they are', async () => {
  const others = Array.from({ length: 5000 }, (_, n) => bundle(n + 10, `j${n}`, n < 2500 ? 'acme' : 'acme2'));
  parts = partsOf([bundle(1, 'acme1'), bundle(2, 'acme-x'), bundle(3, 'acmf'), ...others]);
  assert.deepEqual(await found('acme'), ['acme-x', 'acme1']);
  assert.ok(parts.read <= 20, `${parts.read} jobs were read`);
  assert.deepEqual(await found('j249', 'acme2'), []);
  assert.equal((await found('j2', 'acme2')).length, 5);
});

test('live and ended jobs are found once each, newest first; the exact id wins; of a beginning of many ids `limit` are shown', async () => {
  const kit = new EngineKit();
  kit.submit('task-live');
  kit.submit('task-redriven');
  const ended = [bundle(100, 'task-redriven'), bundle(101, 'task-ended'), bundle(102, 'task')];
  parts = partsOf(ended, kit);
  assert.deepEqual(await found('task'), ['task']);
  assert.deepEqual(await found('task-'), ['task-ended', 'task-redriven', 'task-live']);
  assert.deepEqual((await found('task-', 'default', 2)).length, 2);
  assert.deepEqual(await found('task-live'), ['task-live']);
  assert.deepEqual(await found('nosuch'), []);
  assert.deepEqual(await found('task-', 'acme'), []);
});

test('other filters beside the beginning of an id are refused', async () => {
  parts = partsOf([]);
  await assert.rejects(jobsWithPrefix(parts, { id_prefix: 'task', state: 'dead' }, 'default'), {
    code: 'INVALID_PARAMS',
  });
});
