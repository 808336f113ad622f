import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, submission } from '../../../test/fakes/engine-kit.ts';
import { MAX_CANCELLED_PER_STEP } from '../attempts/operator-commands.ts';
import type { Step } from './engine.ts';

const MANY = 2 * MAX_CANCELLED_PER_STEP + 10;

function submitMany(kit: EngineKit, prefix: string, spec: object): void {
  const submissions = Array.from({ length: MANY }, (_, at) => submission(`${prefix}${at}`, spec));
  kit.step({ type: 'submit', submissions });
}

const isPartial = ({ reply }: Step): boolean => (reply as { isPartial: boolean }).isPartial;

const live = (kit: EngineKit): number =>
  [...kit.engine.state.jobs.values()].filter(({ job }) => job.state !== 'cancelled' && !job.cancel).length;

describe('a session with many jobs', () => {
  const end = (kit: EngineKit): Step =>
    kit.step({ type: 'forget-session', tenant: 'default', id: 's', by: 'test' });

  test('is ended in steps of bounded size, and is there until the last of them', () => {
    const kit = new EngineKit({ queueCapacity: 10_000 });
    kit.backend('b');
    submitMany(kit, 'j', { session_id: 's' });
    const { state } = kit.engine;
    assert.equal(kit.state('j0'), 'claimed');
    for (const left of [MANY - MAX_CANCELLED_PER_STEP, MANY - 2 * MAX_CANCELLED_PER_STEP]) {
      const step = end(kit);
      assert.deepEqual([isPartial(step), live(kit)], [true, left]);
      assert.ok(step.changes.length <= 2 * MAX_CANCELLED_PER_STEP, `${step.changes.length} changes`);
      assert.ok(state.sessionOf('default', 's'));
      assert.equal(kit.state('j0'), 'claimed', 'the newest go first: none starts because of the cancels');
    }
    assert.deepEqual([isPartial(end(kit)), live(kit)], [false, 0]);
    assert.equal(state.sessionOf('default', 's'), undefined);
    const started = [...state.jobs.values()].filter(({ job }) => job.attempt > 0);
    assert.deepEqual(
      started.map(({ ask }) => ask.id),
      ['j0'],
    );
  });

  test('a job that joins it while it is being ended is cancelled with the others', () => {
    const kit = new EngineKit({ queueCapacity: 10_000 });
    submitMany(kit, 'j', { session_id: 's' });
    assert.ok(isPartial(end(kit)));
    kit.submit('late', { session_id: 's' });
    while (isPartial(end(kit)));
    assert.deepEqual([kit.state('late'), live(kit)], ['cancelled', 0]);
  });

  test('counts its tokens without looking at each of its jobs', () => {
    const kit = new EngineKit({ queueCapacity: 10_000 });
    submitMany(kit, 'j', { session_id: 's', tokens: 2 });
    const { roster } = kit.engine.state;
    let tokens = 0;
    for (const { ask } of roster.inSession('default', 's')) tokens += ask.tokens ?? 0;
    assert.equal(roster.reservedTokens('default', 's'), tokens);
    while (isPartial(end(kit)));
    assert.equal(roster.reservedTokens('default', 's'), 0);
  });
});

test('a job with many descendants is cancelled in steps of bounded size, itself in the first', () => {
  const kit = new EngineKit({ queueCapacity: 10_000 });
  kit.submit('parent');
  submitMany(kit, 'c', { parent_id: 'parent' });
  const cancel = (): Step => kit.step({ type: 'cancel', uid: 'parent', by: 'test' });
  const first = cancel();
  assert.deepEqual(
    [isPartial(first), kit.state('parent'), kit.state('c0')],
    [true, 'cancelled', 'cancelled'],
  );
  assert.ok(first.changes.length <= 2 * MAX_CANCELLED_PER_STEP + 2);
  assert.throws(() => kit.submit('late', { parent_id: 'parent' }), { code: 'ADMISSION_REJECT' });
  while (isPartial(cancel()));
  assert.equal(live(kit), 0);
});
