import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { EngineKit, FAILED_FOR_NOW, refusal, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { OrchdError } from '../../model/errors.ts';

const FULL = refusal('QUEUE_FULL');

describe('reject', () => {
  test('[ORCH-1120] the queue accepts queueCapacity jobs, and one more when one has left', () => {
    const kit = new EngineKit({ queueCapacity: 2 });
    kit.submit('a');
    kit.submit('b');
    assert.throws(() => kit.submit('c'), FULL);
    kit.cancel('a');
    kit.submit('c');
    assert.throws(() => kit.submit('d'), FULL);
  });

  test('the queue accepts queueBytes bytes of payload', () => {
    const kit = new EngineKit({ queueBytes: 100 });
    kit.submit('a', { payloadBytes: 60 });
    kit.submit('b', { payloadBytes: 40 });
    assert.throws(() => kit.submit('c', { payloadBytes: 1 }), FULL);
    kit.submit('d', { payloadBytes: 0 });
    kit.cancel('b');
    kit.submit('c', { payloadBytes: 40 });
  });

  test('modules leave a tenth of the queue to others, in jobs and in bytes, and drop nothing', () => {
    for (const queuePolicy of ['reject', 'drop-lru'] as const) {
      const kit = new EngineKit({ queueCapacity: 20, queueBytes: 100, queuePolicy });
      const propose = (id: string, payloadBytes = 0) => kit.submit(id, { isProposal: true, payloadBytes });
      kit.submit('a', { payloadBytes: 50 });
      assert.throws(() => propose('large', 41), FULL);
      for (let n = 1; n < 18; n++) propose(`p${n}`);
      assert.throws(() => propose('p18'), FULL);
      for (const id of ['b', 'c']) kit.submit(id, { priority: 'interactive', payloadBytes: 20 });
      assert.equal(kit.state('a'), 'queued', queuePolicy);
    }
  });

  test('a refusal carries the time to retry and the policy', () => {
    const kit = new EngineKit({ queueCapacity: 1 });
    kit.submit('a');
    const refused = kit.trySubmit('b');
    assert.ok(refused instanceof OrchdError);
    assert.equal(refused.details.policyLabel, 'reject');
    assert.ok(refused.details.retryAfterMs! > 0);
  });

  test('jobs that run do not count, jobs that are parked do', () => {
    const kit = new EngineKit({ queueCapacity: 1 });
    kit.backend('b');
    kit.submit('running');
    kit.submit('parked', { not_before: kit.now + 1000 });
    assert.throws(() => kit.submit('c'), FULL);
  });

  test('retries and redrives of admitted jobs are never refused', () => {
    const kit = new EngineKit({ queueCapacity: 1 });
    kit.backend('b');
    kit.submit('a');
    kit.accept('a');
    kit.submit('waits');
    kit.end('a', FAILED_FOR_NOW);
    assert.equal(kit.state('a'), 'queued');
    assert.equal(kit.state('waits'), 'claimed');
    kit.accept('waits');
    kit.pass(1000);
    kit.cancel('a');
    kit.submit('c', { max_tries: 1 });
    kit.end('waits', SUCCESS);
    kit.accept('c');
    kit.end('c', FAILED_FOR_NOW);
    kit.submit('d');
    kit.submit('e');
    assert.equal(kit.engine.state.counts.queued, 1);
    assert.equal(kit.redrive('c').status, 'queued');
  });

  test('a repeat is answered although the queue is full', () => {
    const kit = new EngineKit({ queueCapacity: 1 });
    kit.submit('a', { key: 'k', hash: 'h' });
    assert.equal(kit.submit('b', { key: 'k' }).duplicateOf, 'key');
    assert.equal(kit.submit('a', { hash: 'h' }).duplicateOf, 'job_id');
  });
});

describe('drop-lru', () => {
  const SETTINGS = { queuePolicy: 'drop-lru', queueCapacity: 2 } as const;

  test('the oldest batch job is dropped and kept as dead', () => {
    const kit = new EngineKit(SETTINGS);
    for (const id of ['a', 'b', 'c']) kit.submit(id);
    assert.deepEqual(
      ['a', 'b', 'c'].map((id) => kit.state(id)),
      ['dead', 'queued', 'queued'],
    );
    assert.deepEqual([kit.job('a').job.reason, kit.job('a').job.error?.code], ['dropped', 'QUEUE_FULL']);
  });

  test('a batch job is dropped before an interactive one, also when it is newer', () => {
    const kit = new EngineKit(SETTINGS);
    kit.submit('old', { priority: 'interactive' });
    kit.submit('young');
    kit.submit('new', { priority: 'interactive' });
    assert.deepEqual([kit.state('old'), kit.state('young')], ['queued', 'dead']);
    kit.submit('newer', { priority: 'interactive' });
    assert.equal(kit.state('old'), 'dead', 'with no batch work left the oldest interactive job goes');
  });

  test('a batch job never displaces an interactive one', () => {
    const kit = new EngineKit(SETTINGS);
    kit.submit('a', { priority: 'interactive' });
    kit.submit('b', { priority: 'interactive' });
    assert.throws(() => kit.submit('c'), FULL);
    assert.deepEqual([kit.state('a'), kit.state('b')], ['queued', 'queued']);
  });

  test('as many jobs are dropped as the bytes need, and none if that would not suffice', () => {
    const kit = new EngineKit({ ...SETTINGS, queueCapacity: 10, queueBytes: 100 });
    for (const id of ['a', 'b', 'c']) kit.submit(id, { payloadBytes: 30 });
    assert.throws(() => kit.submit('large', { payloadBytes: 101 }), FULL);
    assert.equal(kit.engine.state.counts.queued, 3);
    kit.submit('fits', { payloadBytes: 60 });
    assert.deepEqual(
      ['a', 'b', 'c'].map((id) => kit.state(id)),
      ['dead', 'dead', 'queued'],
    );
  });

  test('parked jobs are not dropped', () => {
    const kit = new EngineKit(SETTINGS);
    kit.submit('a', { not_before: kit.now + 1000 });
    kit.submit('b', { not_before: kit.now + 1000 });
    assert.throws(() => kit.submit('c'), FULL);
  });
});

test('for any submits the queue stays within its capacity and its counters are right', () => {
  const commands = fc.array(
    fc.record({
      op: fc.constantFrom('submit', 'submit', 'submit', 'cancel', 'backend'),
      bytes: fc.integer({ min: 0, max: 60 }),
      class: fc.constantFrom('interactive' as const, 'batch' as const),
      parked: fc.boolean(),
      pick: fc.nat(),
    }),
    { maxLength: 60, size: 'max' },
  );
  fc.assert(
    fc.property(commands, fc.constantFrom('reject' as const, 'drop-lru' as const), (steps, queuePolicy) => {
      const kit = new EngineKit({ queueCapacity: 5, queueBytes: 150, queuePolicy });
      const { state } = kit.engine;
      for (const [at, { op, bytes, class: jobClass, parked, pick }] of steps.entries()) {
        if (op === 'submit') {
          const notBefore = parked ? kit.now + 1000 : undefined;
          kit.trySubmit(`j${at}`, { payloadBytes: bytes, priority: jobClass, not_before: notBefore });
        } else if (op === 'cancel' && state.jobs.size > 0) {
          kit.cancel([...state.jobs.keys()][pick % state.jobs.size]!);
        } else if (op === 'backend') kit.backend(`b${at}`);
        const queued = [...state.jobs.values()].filter(({ job }) => job.state === 'queued');
        const sum = queued.reduce((total, { ask }) => total + ask.payloadBytes, 0);
        assert.deepEqual([state.counts.queued, state.queuedBytes], [queued.length, sum]);
        assert.ok(queued.length <= 5 && sum <= 150, `${queued.length} jobs, ${sum} bytes`);
      }
    }),
  );
});
