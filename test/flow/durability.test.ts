/** Nothing is told, offered or let go of before what it rests on is durable. */

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { inspect } from 'node:util';
import { realEnv } from '../../src/kit/env/real.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { hookedDisk, isDatabase, LASTING, onStores, start, startInline, turns } from './flow-kit.ts';
import { type Held, holdable } from './holding.ts';
import { Stage } from './stage.ts';

interface Parts {
  readonly held: Held;
  readonly stage: Stage;
  readonly orchestrator: Orchestrator;
}

/** Where a journal's history is written: in a thread of its own, or `inline`, at once in this thread. */
type HistoryMode = 'thread' | 'inline';

async function begin(
  t: TestContext,
  data: string,
  mode: HistoryMode = 'thread',
  config = '',
): Promise<Parts> {
  const held = holdable(data);
  const stage = new Stage();
  const options = { data, env: held.env, backends: [stage], config };
  // Before the orchestrator is stopped: a held commit would keep it from that.
  t.after(async () => {
    await held.release();
    stage.endAll();
  });
  const isInline = mode === 'inline' && !isDatabase(data);
  const orchestrator = isInline ? await startInline(t, options) : await start(t, options);
  return { held, stage, orchestrator };
}

/** A job that has started; the commit that says so is held, and so is the next one. */
async function startHeld({ held, stage, orchestrator }: Parts): Promise<string> {
  // While the backend thinks, nothing else is under way.
  stage.answer = async () => {
    await held.hold();
    return undefined;
  };
  await orchestrator.submit({ job_id: 'a' });
  await held.commitWaits();
  stage.answer = () => undefined;
  return 'a:1';
}

onStores('an offer waits until the intent is durable', LASTING, async (t, data) => {
  const { held, stage, orchestrator } = await begin(t, data);
  await held.hold();
  const submitting = orchestrator.submit({ job_id: 'a' });
  await held.commitWaits();
  await turns();
  assert.deepEqual(stage.offers, []);
  await held.release();
  await submitting;
  await stage.startedCount(1);
});

onStores(
  'the offer of a second attempt waits until its own intent is durable, not that of the first',
  LASTING,
  async (t, data) => {
    const config = 'orchestrator: {retry: {base_delay_ms: 1, max_delay_ms: 1, jitter: 0}}';
    const parts = await begin(t, data, 'thread', config);
    const { held, stage, orchestrator } = parts;
    await startHeld(parts);
    // The commit that says "accepted" is held while the attempt fails and the next one is decided on.
    stage.end('a:1', { ok: false, error: { code: 'WORKER_TIMEOUT', message: 'slow', retriable: true } });
    while (engineOf(orchestrator).state.jobs.get('a')?.open?.n !== 2) await turns(1);
    await held.releaseOne();
    await turns(50);
    assert.deepEqual(
      stage.offers.map(({ token }) => token),
      ['a:1'],
    );
    await held.release();
    await stage.startedCount(2);
  },
);

onStores('whoever waits for a job is told of its end when that is durable', LASTING, async (t, data) => {
  const parts = await begin(t, data);
  const { held, stage, orchestrator } = parts;
  const token = await startHeld(parts);
  let told = false;
  const waiting = orchestrator.wait('a').then((job) => {
    told = true;
    return job;
  });
  stage.end(token);
  while (engineOf(orchestrator).state.open.size > 0) await turns(1);
  await held.releaseOne();
  await turns(50);
  assert.equal(told, false);
  await held.release();
  assert.equal((await waiting).state, 'succeeded');
});

onStores('whoever reads a job is told what is durable', LASTING, async (t, data) => {
  const parts = await begin(t, data);
  const { held, stage, orchestrator } = parts;
  const token = await startHeld(parts);
  const early = orchestrator.get('a');
  const listed = orchestrator.list();
  stage.end(token);
  while (engineOf(orchestrator).state.open.size > 0) await turns(1);
  let late = false;
  const lateRead = orchestrator.get('a').finally(() => {
    late = true;
  });
  await held.releaseOne();
  assert.notEqual((await early).state, 'succeeded');
  assert.notEqual((await listed).jobs[0]?.state, 'succeeded');
  await turns(50);
  assert.equal(late, false, 'what was asked after the end waits for the end');
  await held.release();
  assert.equal((await lateRead).state, 'succeeded');
});

onStores('an executor may drop a result only when its end is durable here', LASTING, async (t, data) => {
  const parts = await begin(t, data);
  const { held, stage, orchestrator } = parts;
  const token = await startHeld(parts);
  stage.end(token);
  while (engineOf(orchestrator).state.open.size > 0) await turns(1);
  await held.releaseOne();
  await turns(50);
  assert.deepEqual(stage.acks, []);
  await held.release();
  await orchestrator.wait('a');
  await stage.until(() => stage.acks.length > 0);
  assert.deepEqual(stage.acks, [token]);
});

onStores(
  'nor may it drop a result because a comparison finds no open attempt for it',
  LASTING,
  async (t, data) => {
    const parts = await begin(t, data);
    const { held, stage, orchestrator } = parts;
    const token = await startHeld(parts);
    stage.end(token);
    while (engineOf(orchestrator).state.open.size > 0) await turns(1);
    // The comparison sees the result, and that no attempt is open, before the end is durable.
    await orchestrator.reconciliation.run('op');
    await turns(50);
    assert.deepEqual(stage.acks, []);
    await held.release();
    await stage.until(() => stage.acks.length > 0);
    assert.deepEqual(new Set(stage.acks), new Set([token]));
  },
);

onStores('a job leaves memory for the history only when its end is durable', LASTING, async (t, data) => {
  const parts = await begin(t, data, 'inline');
  const { held, stage, orchestrator } = parts;
  const token = await startHeld(parts);
  stage.end(token);
  while (engineOf(orchestrator).state.open.size > 0) await turns(1);
  await held.releaseOne();
  await turns(50);
  assert.ok(engineOf(orchestrator).state.jobs.has('a'));
  await held.release();
  await orchestrator.wait('a');
  while (engineOf(orchestrator).state.jobs.has('a')) await turns(1);
  assert.equal((await orchestrator.get('a')).state, 'succeeded');
});

onStores('a cancel is answered when it is durable, and the kill goes out then', LASTING, async (t, data) => {
  const { held, stage, orchestrator } = await begin(t, data);
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  while ((await orchestrator.get('a')).state !== 'running') await turns(1);
  await held.hold();
  let answered = false;
  const cancelling = orchestrator.cancel('a').finally(() => {
    answered = true;
  });
  await held.commitWaits();
  await turns(50);
  assert.deepEqual([answered, stage.kills.length], [false, 0]);
  await held.release();
  await cancelling;
  assert.equal((await orchestrator.wait('a')).state, 'cancelled');
});

/** Makes a database unable to store bodies; called once the brain has started. A journal gets brokenBodies instead. */
async function breakBodies(data: string): Promise<void> {
  const sql = await connector(data)();
  await sql.run('DROP TABLE orchestrator_blobs');
  await sql.close();
}

const brokenBodies = hookedDisk((path, file) => {
  if (path.endsWith('.blob')) {
    file.datasync = () => Promise.reject(Object.assign(new Error('broken'), { code: 'EIO' }));
  }
  return file;
});

onStores(
  'a result that cannot be put away stops the brain, and everybody who waits is told',
  LASTING,
  async (t, data) => {
    const stage = new Stage();
    const env = { ...realEnv(), disk: brokenBodies };
    const orchestrator = await start(t, { data, env, backends: [stage] });
    if (isDatabase(data)) await breakBodies(data);
    await orchestrator.submit({ job_id: 'a' });
    await stage.startedCount(1);
    const waiting = orchestrator.wait('a');
    stage.end('a:1', { ok: true, resultText: JSON.stringify('x'.repeat(10_000)) });
    await assert.rejects(waiting, (error: Error & { code?: string }) => {
      assert.equal(inspect(error).includes('xxx'), false, 'the error says nothing of the result');
      return error.code === 'STORE_FAILED';
    });
    await assert.rejects(orchestrator.submit({}), { code: 'STORE_FAILED' });
    assert.deepEqual(stage.acks, [], 'the executor keeps the result');
  },
);
