import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, type Fields, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { causeText } from '../../model/causes.ts';
import type { Fleet } from '../queue/fleet.ts';

const reason = (kit: EngineKit, id: string): string | undefined => {
  const last = kit.log.findLast(({ change }) => change.kind === 'job' && change.id === id);
  return last && causeText(last.change.cause);
};

describe('where a job runs', () => {
  test('is a backend that fits and has a free slot', () => {
    const kit = new EngineKit();
    kit.backend('wrong', { types: ['other'], slots: 9 });
    kit.backend('right', { slots: 2 });
    for (const id of ['a', 'b', 'c']) kit.submit(id);
    assert.deepEqual(
      ['a', 'b', 'c'].map((id) => kit.job(id).job.backend),
      ['right', 'right', undefined],
    );
  });

  test('[FANO-1] is never a backend that is not free, for whatever reason; the job waits', () => {
    const notFree: Record<string, (fleet: Fleet, now: number) => void> = {
      full: (fleet) => fleet.occupy('b'),
      down: (fleet) => fleet.setUp('b', false),
      closed: (fleet) => fleet.setClosed('b', true),
      'at another node': (fleet) => fleet.setAway('b', true),
      'busy by its own account': (fleet, now) => fleet.block('b', now + 1000),
    };
    for (const [why, make] of Object.entries(notFree)) {
      const kit = new EngineKit();
      kit.backend('b');
      make(kit.engine.queue.fleet, kit.now);
      kit.submit('a');
      assert.deepEqual([kit.state('a'), kit.claims.length], ['queued', 0], why);
    }
  });

  test('is the one with the smallest share of its slots in use, in turns among equals', () => {
    const kit = new EngineKit();
    kit.backend('small', { slots: 2 });
    kit.backend('large', { slots: 4 });
    const places = Array.from({ length: 6 }, (_, n) => {
      kit.submit(`j${n}`);
      return kit.job(`j${n}`).job.backend;
    });
    assert.deepEqual(places.slice(0, 3), ['small', 'large', 'large']);
    assert.deepEqual([...places].sort(), ['large', 'large', 'large', 'large', 'small', 'small']);
    const equals = new EngineKit();
    for (const name of ['x', 'y', 'z']) equals.backend(name);
    const turns = Array.from({ length: 6 }, (_, n) => {
      equals.submit(`j${n}`);
      const { backend } = equals.job(`j${n}`).job;
      equals.accept(`j${n}`);
      equals.end(`j${n}`, SUCCESS);
      return backend;
    });
    assert.deepEqual(turns, ['x', 'y', 'z', 'x', 'y', 'z']);
  });
});

describe('which job is next', () => {
  /** One backend that runs all types; the waiting jobs are submitted while it is busy. */
  function order(jobs: readonly [id: string, fields: Fields][]): string[] {
    const kit = new EngineKit();
    kit.backend('b');
    kit.submit('busy');
    for (const [id, fields] of jobs) kit.submit(id, fields);
    kit.accept('busy');
    kit.end('busy', SUCCESS);
    for (let n = 0; n < jobs.length; n++) {
      const id = kit.claims.at(-1)!;
      kit.accept(id);
      kit.end(id, SUCCESS);
    }
    return kit.claims.slice(1);
  }

  test('among lanes that compete for a backend: interactive before batch, then first come', () => {
    const claims = order([
      ['a', { type: 't1' }],
      ['b', { type: 't2' }],
      ['c', { type: 't3', priority: 'interactive' }],
      ['d', { type: 't1', priority: 'interactive' }],
      ['e', { type: 't1' }],
    ]);
    assert.deepEqual(claims, ['c', 'd', 'a', 'b', 'e']);
  });

  test('within one principal: the highest score, then first come', () => {
    const claims = order([
      ['a', {}],
      ['b', { score: 5 }],
      ['c', { score: 5 }],
      ['d', { score: -1 }],
    ]);
    assert.deepEqual(claims, ['b', 'c', 'a', 'd']);
  });

  test('a job that was turned away as busy keeps its place', () => {
    const kit = new EngineKit();
    kit.backend('b');
    kit.submit('first');
    kit.submit('second');
    kit.offered('first', { is: 'busy', retryAfterMs: 10 });
    kit.killed('first', { is: 'tombstoned' });
    kit.pass(10);
    assert.deepEqual(kit.claims, ['first', 'first']);
  });
});

test('every claim carries its reason', () => {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a');
  assert.equal(reason(kit, 'a'), 'claim:only-class');
  kit.submit('batch');
  kit.submit('person', { priority: 'interactive' });
  kit.accept('a');
  kit.end('a', SUCCESS);
  assert.equal(reason(kit, 'person'), 'claim:interactive-first');
});

test('nothing is started while the disk is full', () => {
  const kit = new EngineKit();
  kit.submit('a');
  kit.step({ type: 'space', full: true });
  kit.backend('b');
  assert.equal(kit.state('a'), 'queued');
  kit.step({ type: 'space', full: false });
  assert.equal(kit.state('a'), 'claimed');
});

describe('attempt numbers', () => {
  test('of an id chosen by its caller continue above those of every purged job', () => {
    const kit = new EngineKit();
    kit.step({ type: 'purge', attemptFloor: 7, endedBefore: 0 });
    kit.backend('b', { slots: 2 });
    kit.submit('chosen', { hash: 'h' });
    kit.submit('made');
    assert.deepEqual([kit.token('chosen'), kit.token('made')], ['chosen:8', 'made:1']);
    kit.step({ type: 'purge', attemptFloor: 3, endedBefore: 0 });
    assert.equal(kit.engine.state.brain?.attemptFloor, 7, 'the floor never sinks');
  });
});
