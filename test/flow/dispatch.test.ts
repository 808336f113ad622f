/** Dispatch: one queue, one scheduler, and backends that are offered work only when they are free. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorInfo } from '../../src/model/errors.ts';
import { sourcesOf } from '../architecture/source.ts';
import { LASTING, onStores, refusalOf, STORES, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

onStores(
  '[FANO-1] jobs wait in the one queue only; a backend is offered one when it has a free slot, and never more',
  STORES,
  async (t, data) => {
    const small = new Stage({ name: 'small', slots: 1 });
    const large = new Stage({ name: 'large', slots: 3 });
    const stages = [small, large];
    t.after(() => {
      for (const stage of stages) stage.endAll();
    });
    const orchestrator = await start(t, { data, backends: stages });
    const ids = Array.from({ length: 200 }, (_, n) => `j${n}`);
    // An offer to a backend that is not free is a breach, whatever it would answer.
    const breaches: string[] = [];
    for (const stage of stages) {
      stage.answer = ({ token }) => {
        if (stage.running >= stage.info.slots) breaches.push(`${token} to ${stage.info.name}`);
        return undefined;
      };
    }
    await orchestrator.submitMany(ids.map((job_id) => ({ job_id })));
    await small.startedCount(1);
    await large.startedCount(3);
    await turns(50);
    assert.deepEqual(breaches, []);
    assert.deepEqual([small.started.length, large.started.length], [1, 3], 'nothing waits at a backend');
    assert.equal((await orchestrator.list({ state: 'queued', limit: 1000 })).jobs.length, 196);
    const waits = ids.map((id) => orchestrator.wait(id));
    let ended = 0;
    void Promise.all(waits.map((wait) => wait.then(() => ended++)));
    while (ended < 200) {
      for (const stage of stages) for (const token of stage.runningTokens) stage.end(token);
      await turns(1);
    }
    assert.deepEqual([breaches, small.peak, large.peak], [[], 1, 3]);
    const offered = stages.flatMap(({ offers }) => offers.map(({ token }) => token));
    assert.deepEqual(offered.sort(), ids.map((id) => `${id}:1`).sort(), 'each job was offered once');
  },
);

onStores(
  '[FANO-1] the queue goes by priority, and its first job goes to whichever backend is free next',
  STORES,
  async (t, data) => {
    const kept = new Stage({ name: 'kept' });
    const open = new Stage({ name: 'open' });
    t.after(() => {
      for (const stage of [kept, open]) stage.endAll();
    });
    const orchestrator = await start(t, { data, backends: [kept, open] });
    await orchestrator.submitMany([{ job_id: 'runs1' }, { job_id: 'runs2' }]);
    await kept.startedCount(1);
    await open.startedCount(1);
    await orchestrator.submitMany([
      { job_id: 'b1' },
      { job_id: 'b2', score: 1 },
      { job_id: 'b3' },
      { job_id: 'i1', priority: 'interactive' },
      { job_id: 'i2', priority: 'interactive', score: 1 },
      { job_id: 'i3', priority: 'interactive' },
      // Also before batch work of another type that has waited longer.
      { job_id: 'i4', priority: 'interactive', type: 'other' },
    ]);
    // The other backend stays busy: if a job waited for it in particular, it would be missing here.
    for (let n = 2; n <= 8; n++) {
      open.endAll();
      await open.startedCount(n);
    }
    assert.deepEqual(
      open.started.slice(1),
      ['i2', 'i1', 'i3', 'i4', 'b2', 'b1', 'b3'].map((id) => `${id}:1`),
    );
    assert.equal(kept.started.length, 1);
  },
);

onStores(
  '[FANO-1] after a restart a backend is offered nothing while it runs what it was given before',
  LASTING,
  async (t, data) => {
    const stage = new Stage({ slots: 2 });
    t.after(() => stage.endAll());
    const first = await start(t, { data, backends: [stage] });
    const ids = Array.from({ length: 6 }, (_, n) => `j${n}`);
    await first.submitMany(ids.map((job_id) => ({ job_id })));
    await stage.startedCount(2);
    await first.stop();

    const second = await start(t, { data, backends: [stage] });
    await turns(50);
    assert.deepEqual(stage.started, ['j0:1', 'j1:1']);
    for (let n = 3; n <= 6; n++) {
      stage.end(`j${n - 3}:1`);
      await stage.startedCount(n);
    }
    stage.endAll();
    for (const id of ids) assert.equal((await second.wait(id)).state, 'succeeded');
    assert.deepEqual([stage.peak, stage.started.length], [2, 6]);
  },
);

onStores(
  '[FANO-1] a slot stays taken until the backend confirms the end, whatever the caller was told',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    stage.obeys = false;
    t.after(() => stage.endAll());
    const config = 'orchestrator: {cancel_deadline_ms: 20}';
    const orchestrator = await start(t, { data, backends: [stage], config });
    await orchestrator.submit({ job_id: 'a' });
    await orchestrator.submit({ job_id: 'next' });
    await stage.startedCount(1);
    await orchestrator.cancel('a');
    assert.equal((await orchestrator.wait('a')).state, 'cancelled');
    await turns(50);
    assert.deepEqual(stage.started, ['a:1']);
    stage.end('a:1', { ok: 'cancelled' });
    await stage.startedCount(2);
    assert.deepEqual(stage.started, ['a:1', 'next:1']);
  },
);

onStores(
  '[FANO-1] a backend that says busy is offered nothing for the time it gives; the jobs go to others',
  STORES,
  async (t, data) => {
    const busy = new Stage({ name: 'busy', slots: 3 });
    const other = new Stage({ name: 'other' });
    busy.answer = () => ({ is: 'busy', retryAfterMs: 3_600_000 });
    const orchestrator = await start(t, { data, backends: [busy, other] });
    const ids = Array.from({ length: 8 }, (_, n) => `j${n}`);
    await orchestrator.submitMany(ids.map((job_id) => ({ job_id })));
    for (let n = 1; n <= ids.length; n++) {
      await other.startedCount(n);
      other.endAll();
    }
    for (const id of ids) assert.equal((await orchestrator.wait(id)).state, 'succeeded');
    // As many as it had slots were under way when it answered for the first time.
    assert.ok(busy.offers.length >= 1 && busy.offers.length <= 3, `${busy.offers.length} offers`);
    assert.equal(other.started.length, ids.length);
  },
);

onStores(
  'a backend that says busy is asked again later; the job has spent no try and keeps its place',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    t.after(() => stage.endAll());
    let busy = 3;
    stage.answer = () => (busy-- > 0 ? { is: 'busy', retryAfterMs: 5 } : undefined);
    const orchestrator = await start(t, { data, backends: [stage] });
    await orchestrator.submit({ job_id: 'first', max_tries: 1 });
    await orchestrator.submit({ job_id: 'second' });
    await stage.startedCount(1);
    stage.endAll();
    const job = await orchestrator.wait('first');
    assert.deepEqual([job.state, job.tries, job.attempts.length], ['succeeded', 0, 4]);
    assert.deepEqual(stage.started[0], 'first:4');
  },
);

onStores('[ORCH-1020] one decision says which job is next and where it runs', STORES, async (t, data) => {
  const plain = new Stage({ name: 'plain', types: ['text'] });
  const gpu = new Stage({ name: 'gpu', types: ['text', 'image'], labels: { gpu: 'yes' } });
  const stages = [plain, gpu];
  t.after(() => {
    for (const stage of stages) stage.endAll();
  });
  const orchestrator = await start(t, { data, backends: stages });
  await orchestrator.submitMany([
    { job_id: 'busy1', type: 'image' },
    { job_id: 'busy2', type: 'text' },
  ]);
  await plain.startedCount(1);
  await gpu.startedCount(1);
  await orchestrator.submitMany([
    { job_id: 'last', type: 'image', labels: { gpu: 'yes' } },
    { job_id: 'first', type: 'image', priority: 'interactive' },
    { job_id: 'second', type: 'text', priority: 'interactive', labels: { gpu: 'yes' } },
    { job_id: 'third', type: 'text' },
  ]);
  // "plain" is free: the jobs before it need what plain has not, so the third one is next, there.
  plain.end('busy2:1');
  await plain.startedCount(2);
  assert.equal(plain.started[1], 'third:1');
  gpu.end('busy1:1');
  await gpu.startedCount(2);
  gpu.end('first:1');
  await gpu.startedCount(3);
  gpu.end('second:1');
  await gpu.startedCount(4);
  assert.deepEqual(gpu.started, ['busy1:1', 'first:1', 'second:1', 'last:1']);
  // Job and place are one commit: no claim is ever without its attempt and its backend.
  for (const { attempts } of (await orchestrator.list()).jobs) {
    assert.ok(attempts.every(({ backend }) => backend === 'plain' || backend === 'gpu'));
  }
});

onStores(
  '[ORCH-1001] the brain alone decides: a backend gets what was decided and has no say in what comes next',
  STORES,
  async (t, data) => {
    const stages = [new Stage({ name: 'one' }), new Stage({ name: 'two' })];
    const [one, two] = stages as [Stage, Stage];
    t.after(() => {
      for (const stage of stages) stage.endAll();
    });
    // A backend may refuse or say busy; where the job goes then, and which one comes next, is the scheduler's choice.
    one.answer = ({ attempt }) =>
      attempt === 1 ? { is: 'refused', error: errorInfo('POOL_UNAVAILABLE') } : undefined;
    const config = 'orchestrator: {retry: {base_delay_ms: 1, jitter: 0}}';
    const orchestrator = await start(t, { data, backends: stages, config });
    const ids = Array.from({ length: 20 }, (_, n) => `j${n}`);
    await orchestrator.submitMany(ids.map((job_id) => ({ job_id })));
    let ended = 0;
    void Promise.all(ids.map((id) => orchestrator.wait(id).then(() => ended++)));
    while (ended < 20) {
      for (const stage of stages) for (const token of stage.runningTokens) stage.end(token);
      await turns(1);
    }
    for (const id of ids) {
      const { attempts } = await orchestrator.get(id);
      for (const { attempt, backend } of attempts) {
        const there = backend === 'one' ? one : two;
        assert.ok(
          there.offers.some(({ token }) => token === `${id}:${attempt}`),
          'decided before it was offered',
        );
      }
    }
    const decided = ids.length + (await attemptsBeyondFirst(ids, (id) => orchestrator.get(id)));
    assert.equal(one.offers.length + two.offers.length, decided, 'nothing ran that was not decided');
    assert.deepEqual(decisionsOutsideTheCore(), []);
  },
);

async function attemptsBeyondFirst(
  ids: readonly string[],
  get: (id: string) => Promise<{ readonly attempts: readonly unknown[] }>,
): Promise<number> {
  const jobs = await Promise.all(ids.map(get));
  return jobs.reduce((sum, { attempts }) => sum + attempts.length - 1, 0);
}

/** Sources outside the core that import what decides: anything of the core but its ports, or the moves of records. */
function decisionsOutsideTheCore(): string[] {
  const root = join(import.meta.dirname, '../../src');
  const files = new Map<string, string>();
  for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts') || path.endsWith('.test.ts')) continue;
    files.set(`src/${path}`, readFileSync(join(root, path), 'utf8'));
  }
  const deciders = /^src\/core\/(?!ports\/)|^src\/model\/moves\.ts/;
  return sourcesOf(files)
    .filter(({ path }) => /^src\/(backends|daemons|relay|adapters|agents|api|client|cli|wire)\//.test(path))
    .flatMap(({ path, imports }) =>
      imports
        .filter(({ target, kind }) => kind !== 'type' && deciders.test(target))
        .map(({ target }) => `${path} imports ${target}`),
    );
}

onStores(
  '[ORCH-1010] the queue is bounded, has two priorities, and is first come, first served within each',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    t.after(() => stage.endAll());
    const config =
      'orchestrator: {queue_capacity: 6, queue: {capacity_bytes: 10000, max_payload_bytes: 10000}}';
    const orchestrator = await start(t, { data, backends: [stage], config });
    await orchestrator.submit({ job_id: 'runs' });
    await stage.startedCount(1);
    const order = ['b1', 'i1', 'b2', 'i2', 'b3', 'i3'];
    for (const job_id of order) {
      await orchestrator.submit({ job_id, priority: job_id.startsWith('i') ? 'interactive' : 'batch' });
    }
    assert.equal((await refusalOf(() => orchestrator.submit({}))).code, 'QUEUE_FULL', 'by number');
    await orchestrator.cancel('b3');
    const large = { payload: 'x'.repeat(9995) };
    assert.equal((await refusalOf(() => orchestrator.submit(large))).code, 'QUEUE_FULL', 'by bytes');
    for (const priority of ['high', 'low', '', 1, null]) {
      const refused = await refusalOf(() => orchestrator.submit({ priority } as never));
      assert.equal(refused.code, 'INVALID_PARAMS', `there is no priority ${priority}`);
    }
    for (let n = 1; n <= 6; n++) {
      await stage.startedCount(n);
      stage.endAll();
    }
    assert.deepEqual(
      stage.started.slice(1).map((token) => token.split(':')[0]),
      ['i1', 'i2', 'i3', 'b1', 'b2'],
    );
  },
);
