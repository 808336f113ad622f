/** Nothing is told, offered or let go of before what it rests on is durable. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../../src/kit/env/real.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { HeldEnv, hookedDisk, start, startInline, tempFolder, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

interface Held {
  readonly held: HeldEnv;
  readonly stage: Stage;
  readonly orchestrator: Orchestrator;
}

/** `inline`: the history is written at once, so that nothing has to be waited for. */
type HistoryMode = 'thread' | 'inline';

async function begin(t: TestContext, mode: HistoryMode = 'thread', config = ''): Promise<Held> {
  const held = new HeldEnv();
  const stage = new Stage();
  const options = { data: tempFolder(t), env: held.env, backends: [stage], config };
  // Before the orchestrator is stopped: a held flush would keep it from that.
  t.after(() => {
    held.release();
    stage.endAll();
  });
  const orchestrator = mode === 'inline' ? await startInline(t, options) : await start(t, options);
  return { held, stage, orchestrator };
}

/** A job that has started; the flush that says so is held, and so is the next one. */
async function startedButHeld(
  t: TestContext,
  mode: HistoryMode = 'thread',
): Promise<Held & { readonly token: string }> {
  const parts = await begin(t, mode);
  await parts.orchestrator.submit({ job_id: 'a' });
  await parts.stage.startedCount(1);
  parts.held.hold();
  await parts.held.flushWaits();
  return { ...parts, token: 'a:1' };
}

test('an offer waits until the intent is durable', async (t) => {
  const { held, stage, orchestrator } = await begin(t);
  held.hold();
  const submitting = orchestrator.submit({ job_id: 'a' });
  await held.flushWaits();
  await turns();
  assert.deepEqual(stage.offers, []);
  held.release();
  await submitting;
  await stage.startedCount(1);
});

test('the offer of a second attempt waits until its own intent is durable, not that of the first', async (t) => {
  const config = 'orchestrator: {retry: {base_delay_ms: 1, max_delay_ms: 1, jitter: 0}}';
  const { held, stage, orchestrator } = await begin(t, 'thread', config);
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  held.hold();
  // The flush that says "accepted" is held while the attempt fails and the next one is decided on.
  await held.flushWaits();
  stage.end('a:1', { ok: false, error: { code: 'WORKER_TIMEOUT', message: 'slow', retriable: true } });
  while (orchestrator.engine.state.jobs.get('a')?.open?.n !== 2) await turns(1);
  await held.releaseOne();
  await turns(50);
  assert.deepEqual(
    stage.offers.map(({ token }) => token),
    ['a:1'],
  );
  held.release();
  await stage.startedCount(2);
});

test('whoever waits for a job is told of its end when that is durable', async (t) => {
  const { held, stage, orchestrator, token } = await startedButHeld(t);
  let told = false;
  const waiting = orchestrator.wait('a').then((job) => {
    told = true;
    return job;
  });
  stage.end(token);
  while (orchestrator.engine.state.open.size > 0) await turns(1);
  await held.releaseOne();
  await turns(50);
  assert.equal(told, false);
  held.release();
  assert.equal((await waiting).state, 'succeeded');
});

test('whoever reads a job is told what is durable', async (t) => {
  const { held, stage, orchestrator, token } = await startedButHeld(t);
  const early = orchestrator.get('a');
  const listed = orchestrator.list();
  stage.end(token);
  while (orchestrator.engine.state.open.size > 0) await turns(1);
  let late = false;
  const lateRead = orchestrator.get('a').finally(() => {
    late = true;
  });
  await held.releaseOne();
  assert.notEqual((await early).state, 'succeeded');
  assert.notEqual((await listed).jobs[0]?.state, 'succeeded');
  await turns(50);
  assert.equal(late, false, 'what was asked after the end waits for the end');
  held.release();
  assert.equal((await lateRead).state, 'succeeded');
});

test('an executor may drop a result only when its end is durable here', async (t) => {
  const { held, stage, orchestrator, token } = await startedButHeld(t);
  stage.end(token);
  while (orchestrator.engine.state.open.size > 0) await turns(1);
  await held.releaseOne();
  await turns(50);
  assert.deepEqual(stage.acks, []);
  held.release();
  await orchestrator.wait('a');
  await stage.until(() => stage.acks.length > 0);
  assert.deepEqual(stage.acks, [token]);
});

test('a job leaves memory for the history only when its end is durable', async (t) => {
  const { held, stage, orchestrator, token } = await startedButHeld(t, 'inline');
  stage.end(token);
  while (orchestrator.engine.state.open.size > 0) await turns(1);
  await held.releaseOne();
  await turns(50);
  assert.ok(orchestrator.engine.state.jobs.has('a'));
  held.release();
  await orchestrator.wait('a');
  while (orchestrator.engine.state.jobs.has('a')) await turns(1);
  assert.equal((await orchestrator.get('a')).state, 'succeeded');
});

test('a cancel is answered when it is durable, and the kill goes out then', async (t) => {
  const { held, stage, orchestrator } = await begin(t);
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  while ((await orchestrator.get('a')).state !== 'running') await turns(1);
  held.hold();
  let answered = false;
  const cancelling = orchestrator.cancel('a').finally(() => {
    answered = true;
  });
  await held.flushWaits();
  await turns(50);
  assert.deepEqual([answered, stage.kills.length], [false, 0]);
  held.release();
  await cancelling;
  assert.equal((await orchestrator.wait('a')).state, 'cancelled');
});

test('a result that cannot be put away stops the brain, and everybody who waits is told', async (t) => {
  const disk = hookedDisk((path, file) => {
    if (path.endsWith('.blob')) {
      file.datasync = () => Promise.reject(Object.assign(new Error('broken'), { code: 'EIO' }));
    }
    return file;
  });
  const stage = new Stage();
  const orchestrator = await start(t, {
    data: tempFolder(t),
    env: { ...realEnv(), disk },
    backends: [stage],
  });
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  const waiting = orchestrator.wait('a');
  stage.end('a:1', { ok: true, resultText: JSON.stringify('x'.repeat(10_000)) });
  await assert.rejects(waiting, { code: 'STORE_FAILED' });
  await assert.rejects(orchestrator.submit({}), { code: 'STORE_FAILED' });
  assert.deepEqual(stage.acks, [], 'the executor keeps the result');
});
