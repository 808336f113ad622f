import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, FAILED, FAILED_FOR_NOW, SUCCESS, TURNED_AWAY } from '../../../test/fakes/engine-kit.ts';
import { errorInfo } from '../../model/errors.ts';

const BREAKER = { failures: 3, pauseMs: 1000, maxPauseMs: 4000 };

/** A kit with one seat of several slots. Jobs are tried once, so that no retry comes in between. */
function seated(fields: object = {}): EngineKit {
  const kit = new EngineKit({ breaker: BREAKER });
  kit.backend('seat', { slots: 4, hasProvider: true, ...fields });
  return kit;
}

let jobs = 0;

/** Runs a job on the seat to its end; returns whether one could be started. */
function run(kit: EngineKit, outcome: typeof SUCCESS): boolean {
  const id = `job-${++jobs}`;
  kit.submit(id, { max_tries: 1 });
  if (!kit.job(id).open) {
    kit.cancel(id);
    return false;
  }
  kit.accept(id);
  kit.end(id, outcome);
  return true;
}

const fail = (kit: EngineKit, times: number): void => {
  for (let done = 0; done < times; done++) assert.ok(run(kit, FAILED_FOR_NOW));
};

describe('a backend with a provider', () => {
  test('is paused after failures in a row, then tried by one job, and free after its success', () => {
    const kit = seated();
    fail(kit, 3);
    assert.equal(run(kit, SUCCESS), false, 'paused');
    kit.pass(999);
    assert.equal(run(kit, SUCCESS), false, 'still paused');
    kit.pass(1);
    kit.submit('probe', { max_tries: 1 });
    kit.submit('behind', { max_tries: 1 });
    assert.ok(kit.job('probe').open);
    assert.equal(kit.job('behind').open, undefined, 'one at a time tries it');
    kit.accept('probe');
    kit.end('probe', SUCCESS);
    assert.ok(kit.job('behind').open);
    for (const id of ['b', 'c', 'd']) kit.submit(id);
    assert.ok(kit.job('d').open, 'all slots are used again');
  });

  test('is paused twice as long after each failed try of it, up to the longest pause', () => {
    const kit = seated();
    fail(kit, 3);
    for (const pauseMs of [1000, 2000, 4000, 4000]) {
      kit.pass(pauseMs - 1);
      assert.equal(run(kit, SUCCESS), false, `within the pause of ${pauseMs}`);
      kit.pass(1);
      assert.ok(run(kit, FAILED_FOR_NOW), `after the pause of ${pauseMs}`);
    }
  });

  test('is paused anew only after as many failures as at first, once it has succeeded', () => {
    const kit = seated();
    fail(kit, 3);
    kit.pass(1000);
    assert.ok(run(kit, SUCCESS));
    fail(kit, 2);
    assert.ok(run(kit, SUCCESS), 'two failures pause nothing');
    fail(kit, 3);
    assert.equal(run(kit, SUCCESS), false);
    kit.pass(1000);
    assert.ok(run(kit, SUCCESS), 'the first pause again, not the second');
  });

  for (const [name, outcome] of [
    ['an error of the caller', FAILED],
    ['a prompt that is too long', { ok: false, error: errorInfo('CONTEXT_TOO_LONG') }],
  ] as const)
    test(`${name} is no failure of it`, () => {
      const kit = seated();
      for (let done = 0; done < 10; done++) assert.ok(run(kit, outcome));
    });

  const timeOut = (kit: EngineKit, id: string, timeoutMs: number): void => {
    kit.submit(id, { max_tries: 1, timeout_ms: timeoutMs });
    kit.accept(id);
    kit.pass(timeoutMs);
    kit.killed(id, { is: 'ended', outcome: { ok: 'cancelled' } });
  };

  test('a caller who allows less time than usual pauses nothing', () => {
    const kit = seated({ timeoutMs: 500 });
    for (const id of ['a', 'b', 'c', 'd']) timeOut(kit, id, 499);
    assert.ok(run(kit, SUCCESS));
  });

  test('an answer that breaks the protocol and a timeout are failures of it', () => {
    const kit = seated({ timeoutMs: 500 });
    assert.ok(run(kit, { ok: false, error: errorInfo('WORKER_PROTOCOL') }));
    timeOut(kit, 'slow', 500);
    assert.ok(run(kit, FAILED_FOR_NOW));
    assert.equal(run(kit, SUCCESS), false);
  });

  test('failures of executions that were under way when it was paused do not lengthen the pause', () => {
    const kit = seated();
    for (const id of ['a', 'b', 'c', 'late']) kit.submit(id, { max_tries: 1 });
    for (const id of ['a', 'b', 'c', 'late']) kit.accept(id);
    for (const id of ['a', 'b', 'c', 'late']) kit.end(id, FAILED_FOR_NOW);
    kit.pass(1000);
    assert.ok(run(kit, SUCCESS));
  });

  test('does not come out of its pause by a new declaration, nor by its word that it is free', () => {
    const kit = seated();
    fail(kit, 3);
    kit.backend('seat', { slots: 4, hasProvider: true });
    kit.step({ type: 'backend-free', name: 'seat' });
    assert.equal(run(kit, SUCCESS), false);
  });

  test('stays on trial when its provider turns the try away', () => {
    const kit = seated();
    fail(kit, 3);
    kit.pass(1000);
    kit.submit('probe', { max_tries: 1 });
    kit.accept('probe');
    kit.end('probe', { ...TURNED_AWAY, retryAfterMs: 100 } as typeof TURNED_AWAY);
    kit.pass(100);
    kit.submit('behind');
    assert.ok(kit.job('probe').open, 'the job that was turned away tries again');
    assert.equal(kit.job('behind').open, undefined);
  });

  test('is never paused if the setting is 0', () => {
    const kit = new EngineKit({ breaker: { ...BREAKER, failures: 0 } });
    kit.backend('seat', { hasProvider: true });
    fail(kit, 20);
  });
});

test('a backend without a provider is never paused: its failures are those of its jobs', () => {
  const kit = seated({ hasProvider: undefined });
  fail(kit, 20);
});
