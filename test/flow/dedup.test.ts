import assert from 'node:assert/strict';
import { OrchdError } from '../../src/index.ts';
import type { Submitted } from '../../src/model/http/jobs.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { LASTING, onStores, refusalOf, STORES, start, turns } from './flow-kit.ts';
import { holdable } from './holding.ts';
import { Stage } from './stage.ts';

onStores(
  '[FANO-2] a key belongs to one job that is not terminal; dead frees it, a redrive waits for it',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    const orchestrator = await start(t, { data, backends: [stage] });
    const first = await orchestrator.submit({ key: 'k', payload: 1 });
    const repeat = await orchestrator.submit({ key: 'k', payload: 2 });
    assert.deepEqual([repeat.job_id, repeat.duplicate_of], [first.job_id, 'key']);
    await stage.startedCount(1);
    assert.equal((await orchestrator.submit({ key: 'k' })).job_id, first.job_id, 'also while it runs');
    const error = { code: 'EXECUTION_FAILED', message: 'not today', retriable: true } as const;
    stage.end(`${first.job_id}:1`, { ok: false, error });
    assert.equal((await orchestrator.submit({ key: 'k' })).job_id, first.job_id, 'also between two tries');
    await orchestrator.cancel(first.job_id);
    const second = await orchestrator.submit({ key: 'k', max_tries: 1 });
    assert.notEqual(second.job_id, first.job_id, 'a cancelled job frees it');
    await stage.startedCount(2);
    stage.end(`${second.job_id}:1`, { ok: false, error });
    assert.equal((await orchestrator.wait(second.job_id)).state, 'dead');
    const third = await orchestrator.submit({ key: 'k' });
    assert.notEqual(third.job_id, second.job_id, 'a dead job frees it');
    const refused = await refusalOf(() => orchestrator.redrive(second.job_id));
    assert.deepEqual([refused.code, refused.status], ['KEY_CONFLICT', 409]);
    await stage.startedCount(3);
    stage.endAll();
    await orchestrator.wait(third.job_id);
    const redriven = await orchestrator.redrive(second.job_id);
    assert.notEqual(redriven.state, 'dead', 'with the key free it lives again');
    assert.equal((await orchestrator.submit({ key: 'k' })).job_id, second.job_id);
    await stage.startedCount(4);
    stage.endAll();
    await orchestrator.wait(second.job_id);
    assert.deepEqual(
      stage.started.map((token) => token.split(':')[1]),
      ['1', '1', '1', '2'],
    );
  },
);

onStores('[FANO-2] a key still belongs to its job after a restart', LASTING, async (t, data) => {
  const stage = new Stage();
  t.after(() => stage.endAll());
  const first = await start(t, { data, backends: [stage] });
  const runs = await first.submit({ key: 'runs' });
  await stage.startedCount(1);
  await first.checkpoint();
  const waits = await first.submit({ key: 'waits' });
  const ended = await first.submit({ key: 'ended' });
  await first.cancel(ended.job_id);
  await first.stop();

  const second = await start(t, { data, backends: [stage] });
  assert.equal((await second.submit({ key: 'runs' })).job_id, runs.job_id);
  assert.equal((await second.submit({ key: 'waits' })).job_id, waits.job_id);
  assert.equal((await second.submit({ key: 'ended' })).duplicate_of, undefined);
});

onStores('100 submits of one key at once make one job', STORES, async (t, data) => {
  const stage = new Stage({ slots: 100 });
  const orchestrator = await start(t, { data, backends: [stage] });
  const submits = Array.from({ length: 100 }, (_, n) =>
    // Bodies that go inline, and bodies that are put away first.
    orchestrator.submit({ key: 'k', payload: 'x'.repeat(n % 2 === 0 ? 10 : 10_000) }),
  );
  const answers = await Promise.all(submits);
  assert.equal(new Set(answers.map(({ job_id }) => job_id)).size, 1);
  assert.equal(answers.filter(({ duplicate_of }) => duplicate_of === undefined).length, 1);
  await stage.startedCount(1);
  stage.endAll();
  await orchestrator.wait(answers[0]!.job_id);
  assert.equal(stage.started.length, 1);
});

onStores(
  'a job id with the same body is the same job, with another body a conflict, also when it is long over',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    const orchestrator = await start(t, { data, backends: [stage] });
    const request = { job_id: 'mine', payload: { a: 1, b: [2] } };
    await orchestrator.submit(request);
    await stage.startedCount(1);
    stage.endAll();
    await orchestrator.wait('mine');
    for (let round = 0; round < 10; round++) {
      const again = await orchestrator.submit({ payload: { b: [2], a: 1 }, job_id: 'mine' });
      assert.deepEqual([again.duplicate_of, again.status], ['job_id', 'succeeded']);
      const refused = await refusalOf(() => orchestrator.submit({ ...request, payload: round }));
      assert.equal(refused.code, 'JOB_CONFLICT');
      await turns(round);
    }
    assert.deepEqual(stage.started, ['mine:1']);
  },
);

onStores(
  'nobody is told of a job before it is durable: 100 submits of one key, one held commit',
  LASTING,
  async (t, data) => {
    const held = holdable(data);
    t.after(() => held.release());
    const stage = new Stage();
    const orchestrator = await start(t, { data, env: held.env, backends: [stage] });
    await held.hold();
    let told = 0;
    const submits = Array.from({ length: 100 }, async () => {
      const answer = await orchestrator.submit({ key: 'k' });
      told++;
      return answer;
    });
    await held.commitWaits();
    await turns();
    assert.deepEqual([told, stage.offers.length], [0, 0], 'no answer and no offer while the commit is held');
    await held.release();
    const answers = await Promise.all(submits);
    assert.equal(new Set(answers.map(({ job_id }) => job_id)).size, 1);
    await stage.startedCount(1);
    stage.endAll();
  },
);

onStores(
  'a repeat of a job id is recognised at every moment of its way into the history',
  STORES,
  async (t, data) => {
    const stage = new Stage({ slots: 1000 });
    const orchestrator = await start(t, { data, backends: [stage] });
    for (let round = 0; round < 10; round++) {
      const request = { job_id: `j${round}`, payload: round };
      await orchestrator.submit(request);
      await stage.startedCount(round + 1);
      stage.endAll();
      const repeats: Promise<Submitted | OrchdError>[] = [];
      // All through its end, its commit and its hand-over.
      while (engineOf(orchestrator).state.jobs.has(request.job_id) && repeats.length < 1000) {
        repeats.push(orchestrator.submit(request).catch((error: OrchdError) => error));
        await turns(1);
      }
      repeats.push(orchestrator.submit(request));
      for (const answer of await Promise.all(repeats)) {
        if (answer instanceof OrchdError) assert.ok(answer.retriable, answer.message);
        else assert.equal(answer.duplicate_of, 'job_id', `round ${round}`);
      }
    }
    await turns();
    assert.equal(stage.started.length, 10);
  },
);

onStores(
  'a job that came, ran and left memory while a batch with its repeat was put away is not run again',
  STORES,
  async (t, data) => {
    const stage = new Stage({ slots: 2000 });
    const orchestrator = await start(t, { data, backends: [stage] });
    const job = { job_id: 'invoice', payload: { pay: 100 } };
    const large = Array.from({ length: 300 }, (_, n) => ({ type: 'other', payload: 'x'.repeat(5000) + n }));
    const batch = orchestrator.submitMany([job, ...large]);
    await orchestrator.submit(job);
    await stage.startedCount(1);
    stage.end('invoice:1');
    await orchestrator.wait('invoice');
    const [answer] = (await batch) as [Submitted];
    assert.deepEqual([answer.job_id, answer.duplicate_of], ['invoice', 'job_id']);
    await turns(50);
    assert.deepEqual(
      stage.started.filter((token) => token.startsWith('invoice')),
      ['invoice:1'],
    );
  },
);
