import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  refusal,
  SETTINGS,
  START,
  STOPPED,
  SUCCESS,
} from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { errorInfo, OrchdError } from '../../model/errors.ts';
import { isTerminal, JOB_STATES, type JobState } from '../../model/states.ts';

/** A kit whose only backend has accepted the job and is about to end it. */
function running(id: string, fields: Parameters<EngineKit['submit']>[1] = {}, settings = {}): EngineKit {
  const kit = new EngineKit(settings);
  kit.backend('b');
  kit.submit(id, fields);
  kit.accept(id);
  return kit;
}

describe('a new job', () => {
  test('is queued, and claimed in the same step when a backend is free', () => {
    const kit = new EngineKit();
    assert.deepEqual(kit.submit('a'), {
      uid: 'a',
      id: 'a',
      status: 'queued',
      queuePosition: 0,
      predictedStartMs: undefined,
      duplicateOf: undefined,
    });
    kit.backend('b');
    kit.accept('a');
    kit.end('a', SUCCESS);
    kit.submit('b');
    assert.equal(kit.state('b'), 'claimed');
  });

  test('records its creation time, its place in the order of admission, and its deadline', () => {
    const kit = new EngineKit();
    kit.submit('a', { deadline_ms: 500 });
    const { ask, deadlineAt, seq } = kit.job('a');
    assert.deepEqual([ask.createdAt, deadlineAt, ask.n], [START, START + 500, seq]);
  });

  test('is refused when its payload is larger than may be', () => {
    const kit = new EngineKit({ maxPayloadBytes: 10 });
    kit.submit('a', { payloadBytes: 10 });
    assert.throws(() => kit.submit('b', { payloadBytes: 11 }), refusal('INVALID_PARAMS'));
  });

  test('is refused while the disk is full, and admitted afterwards', () => {
    const kit = new EngineKit();
    kit.step({ type: 'space', full: true });
    assert.throws(() => kit.submit('a'), refusal('STORE_FULL'));
    assert.throws(() => kit.submit('b', { bodyStored: false }), refusal('STORE_FULL'));
    kit.step({ type: 'space', full: false });
    kit.submit('a');
  });
});

describe('the same job id', () => {
  test('with the same body is the same job, whatever its state', () => {
    const kit = running('a', { hash: 'h' });
    assert.deepEqual([kit.submit('a', { hash: 'h' }).duplicateOf, kit.state('a')], ['job_id', 'running']);
    kit.end('a', SUCCESS);
    const again = kit.submit('a', { hash: 'h' });
    assert.deepEqual([again.duplicateOf, again.status], ['job_id', 'succeeded']);
    assert.deepEqual(kit.claims, ['a']);
  });

  test('with another body is a conflict', () => {
    const kit = running('a', { hash: 'h' });
    assert.throws(() => kit.submit('a', { hash: 'other' }), refusal('JOB_CONFLICT'));
  });

  test('is recognised by the history once the job has left memory', () => {
    const kit = running('a', { hash: 'h' });
    kit.end('a', SUCCESS);
    const { ask, job, seq } = kit.job('a');
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq }] });
    assert.equal(kit.engine.state.jobs.size, 0);
    const again = kit.submit('a', { hash: 'h', known: { ask, job } });
    assert.deepEqual([again.duplicateOf, again.status], ['job_id', 'succeeded']);
    assert.throws(() => kit.submit('a', { hash: 'x', known: { ask, job } }), refusal('JOB_CONFLICT'));
    assert.equal(kit.engine.state.jobs.size, 0);
  });

  test('of another tenant is another job', () => {
    const kit = new EngineKit();
    kit.submit('a', { hash: 'h' });
    assert.equal(kit.submit('a', { hash: 'x', tenant: 'acme' }).duplicateOf, undefined);
    assert.deepEqual([...kit.engine.state.jobs.keys()], ['a', 'acme~a']);
  });
});

describe('[FANO-2] the same key', () => {
  test('returns the job that has it, in every state that is not terminal, and changes nothing', () => {
    const reach: Partial<Record<JobState, (kit: EngineKit) => void>> = {
      queued: () => undefined,
      claimed: (kit) => kit.backend('b'),
      running: (kit) => {
        kit.backend('b');
        kit.accept('a');
      },
      waiting: (kit) => {
        kit.backend('b');
        kit.accept('a');
        kit.end('a', { ok: 'waits', state: '1', children: [], needs: 'all' });
      },
      stale: (kit) => {
        kit.backend('b');
        kit.accept('a');
        kit.lose('a');
        kit.found('a', { is: 'forgotten' });
      },
    };
    // `failed` moves on in the same commit: nobody can submit in between.
    const lasting = JOB_STATES.filter((state) => !isTerminal(state) && state !== 'failed');
    assert.deepEqual(Object.keys(reach), lasting);
    for (const state of lasting) {
      const kit = new EngineKit();
      kit.submit('a', { key: 'k', on_unknown: 'hold' });
      reach[state]?.(kit);
      assert.equal(kit.state('a'), state);
      const changes = kit.log.length;
      const { id, duplicateOf } = kit.submit('b', { key: 'k', payload: '"other"' });
      assert.deepEqual([id, duplicateOf, kit.log.length], ['a', 'key', changes], state);
    }
  });

  test('returns the job that has it between two of its tries', () => {
    const kit = running('a', { key: 'k' });
    kit.end('a', FAILED_FOR_NOW);
    assert.deepEqual([kit.state('a'), kit.job('a').parked], ['queued', 'not_before']);
    assert.equal(kit.submit('b', { key: 'k' }).id, 'a');
  });

  test('is free again after every terminal state', () => {
    const ends: Record<string, (kit: EngineKit) => void> = {
      succeeded: (kit) => kit.end('a', SUCCESS),
      dead: (kit) => kit.end('a', { ok: false, error: { ...errorInfo('INTERNAL'), retriable: true } }),
      cancelled: (kit) => {
        kit.cancel('a');
        kit.killed('a', { is: 'ended', outcome: { ok: 'cancelled' } });
      },
    };
    for (const [state, end] of Object.entries(ends)) {
      const kit = running('a', { key: 'k', max_tries: 1 });
      end(kit);
      assert.equal(kit.state('a'), state);
      assert.equal(kit.submit('b', { key: 'k' }).duplicateOf, undefined, state);
    }
  });

  test('of another tenant is another key', () => {
    const kit = new EngineKit();
    kit.submit('a', { key: 'k', tenant: 'acme' });
    assert.equal(kit.submit('b', { key: 'k' }).duplicateOf, undefined);
  });

  test('admits no job whose body was not stored because it repeated one that has ended since', () => {
    const kit = new EngineKit();
    assert.throws(() => kit.submit('b', { key: 'k', bodyStored: false }), refusal('STORE_BUSY'));
    assert.equal(kit.engine.state.jobs.size, 0);
  });
});

describe('[FANO-3] the failure cache', () => {
  test('refuses a key that failed for good until the entry expires', () => {
    const kit = running('a', { key: 'k' }, { failureCacheTtlMs: 1000 });
    kit.end('a', FAILED);
    const refused = kit.trySubmit('b', { key: 'k' });
    assert.ok(refused instanceof OrchdError);
    assert.deepEqual(
      [refused.code, refused.details.reason, refused.details.retryAfterMs],
      ['ADMISSION_REJECT', 'recent_failure', 1000],
    );
    kit.pass(999);
    assert.throws(() => kit.submit('b', { key: 'k' }), refusal('ADMISSION_REJECT', 'recent_failure'));
    kit.pass(1);
    kit.submit('b', { key: 'k' });
    assert.equal(kit.engine.state.failures.size, 0);
  });

  test('is bypassed by force_retry, which also deletes the entry', () => {
    const kit = running('a', { key: 'k' });
    kit.end('a', FAILED);
    assert.equal(kit.submit('b', { key: 'k', forceRetry: true }).status, 'queued');
    assert.equal(kit.engine.state.failures.size, 0);
  });

  test('does not affect jobs without a key, other keys and other tenants', () => {
    const kit = running('a', { key: 'k' });
    kit.end('a', FAILED);
    kit.submit('b');
    kit.submit('c', { key: 'other' });
    kit.submit('d', { key: 'k', tenant: 'acme' });
  });

  test('records only final errors of the execution itself', () => {
    const nothing: Record<string, (kit: EngineKit) => void> = {
      'a success': (kit) => kit.end('a', SUCCESS),
      'an error that may be tried again, tries used up': (kit) => kit.end('a', FAILED_FOR_NOW),
      'a cancel': (kit) => {
        kit.cancel('a');
        kit.end('a', { ok: 'cancelled' });
      },
      'a cancel, though it failed for good meanwhile': (kit) => {
        kit.cancel('a');
        kit.end('a', FAILED);
      },
      'a deadline': (kit) => {
        kit.pass(60_000);
        kit.end('a', { ok: 'cancelled' });
      },
      'an outcome that nobody knows': (kit) => {
        kit.lose('a');
        kit.found('a', { is: 'forgotten' });
      },
      'a timeout that the backend confirms': (kit) => {
        kit.pass(1000);
        kit.end('a', STOPPED);
      },
      'a timeout that nobody confirms': (kit) => kit.pass(1000 + SETTINGS.cancelDeadlineMs),
    };
    for (const [what, end] of Object.entries(nothing)) {
      const timeout = what.startsWith('a timeout') ? { timeout_ms: 1000 } : {};
      const kit = running('a', {
        key: 'k',
        max_tries: 1,
        deadline_ms: 60_000,
        on_unknown: 'fail',
        ...timeout,
      });
      end(kit);
      assert.ok(isTerminal(kit.job('a').job.state), what);
      assert.equal(kit.engine.state.failures.size, 0, what);
      assert.equal(kit.submit('b', { key: 'k' }).duplicateOf, undefined, what);
    }
  });

  test('records neither a refused start nor a dropped job', () => {
    const kit = new EngineKit({ queueCapacity: 1, queuePolicy: 'drop-lru' });
    kit.submit('dropped', { key: 'd' });
    kit.submit('refused', { key: 'r' });
    assert.equal(kit.state('dropped'), 'dead');
    kit.backend('b');
    kit.offered('refused', { is: 'refused', error: errorInfo('WORKER_NOT_FOUND') });
    kit.killed('refused', { is: 'tombstoned' });
    assert.equal(kit.state('refused'), 'dead');
    assert.equal(kit.engine.state.failures.size, 0);
  });

  test('records no job whose worker could not be started', () => {
    const kit = new PoolKit({ startTries: 1 });
    kit.pool('p', [24]);
    kit.broken.add(kit.model('m'));
    kit.ask('a', 'm', { key: 'k' });
    kit.obey();
    assert.deepEqual([kit.state('a'), kit.job('a').job.error?.code], ['dead', 'WORKER_START_FAILED']);
    assert.equal(kit.engine.state.failures.size, 0);
  });

  test('forgets the key that was not used for the longest time: a refusal is a use', () => {
    const kit = new EngineKit({ failureCacheSize: 2 });
    kit.backend('b');
    const fail = (key: string): void => {
      kit.submit(key, { key });
      kit.accept(key);
      kit.end(key, FAILED);
    };
    fail('k1');
    fail('k2');
    assert.ok(kit.trySubmit('again', { key: 'k1' }) instanceof OrchdError);
    fail('k3');
    const left = (): string[] => [...kit.engine.state.failures.keys()].sort();
    assert.deepEqual(left(), ['default~k1', 'default~k3']);
    const reopened = new EngineKit({ failureCacheSize: 2 });
    for (const { change, at } of kit.log) reopened.engine.state.apply(change, at);
    assert.deepEqual([...reopened.engine.state.failures.keys()].sort(), left(), 'after a restart too');
  });

  test('keeps the keys that failed last when it is full', () => {
    const kit = new EngineKit({ failureCacheSize: 2 });
    kit.backend('b');
    for (const key of ['k1', 'k2', 'k1', 'k3']) {
      kit.submit(`${key}-${kit.claims.length}`, { key, forceRetry: true });
      const id = kit.claims.at(-1)!;
      kit.accept(id);
      kit.end(id, FAILED);
    }
    assert.deepEqual([...kit.engine.state.failures.keys()], ['default~k1', 'default~k3']);
  });

  test('is off with a TTL of 0', () => {
    const kit = running('a', { key: 'k' }, { failureCacheTtlMs: 0 });
    kit.end('a', FAILED);
    kit.submit('b', { key: 'k' });
  });
});

describe('a parent', () => {
  test('must be a live job that is not being cancelled', () => {
    const kit = running('p');
    kit.submit('child', { parent_id: 'p' });
    assert.throws(
      () => kit.submit('x', { parent_id: 'nobody' }),
      refusal('ADMISSION_REJECT', 'parent_ended'),
    );
    assert.throws(
      () => kit.submit('x', { parent_id: 'p', tenant: 'acme' }),
      refusal('ADMISSION_REJECT', 'parent_ended'),
    );
    kit.cancel('p');
    assert.equal(kit.state('p'), 'running');
    assert.throws(() => kit.submit('x', { parent_id: 'p' }), refusal('ADMISSION_REJECT', 'parent_ended'));
    kit.killed('p', { is: 'ended', outcome: { ok: 'cancelled' } });
    assert.throws(() => kit.submit('x', { parent_id: 'p' }), refusal('ADMISSION_REJECT', 'parent_ended'));
  });

  test('is an ancestor of its children and of theirs', () => {
    const kit = new EngineKit();
    kit.submit('a');
    kit.submit('b', { parent_id: 'a' });
    kit.submit('c', { parent_id: 'b' });
    assert.deepEqual(
      ['a', 'b', 'c'].map((id) => kit.job(id).ask.ancestors),
      [undefined, ['a'], ['a', 'b']],
    );
  });

  test('may have at most 31 ancestors', () => {
    const kit = new EngineKit();
    for (let n = 0; n < 32; n++) kit.submit(`j${n}`, n === 0 ? {} : { parent_id: `j${n - 1}` });
    assert.throws(() => kit.submit('x', { parent_id: 'j31' }), refusal('INVALID_PARAMS'));
  });
});
