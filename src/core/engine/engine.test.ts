import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { EngineKit, SETTINGS, START, submission } from '../../../test/fakes/engine-kit.ts';
import { stateText, WALK_SETTINGS, walk, walkCommands } from '../../../test/fakes/engine-walk.ts';
import { OrchdError } from '../../model/errors.ts';
import { isOpen, isTerminal, JOB_STATES, usesSlot } from '../../model/states.ts';
import { laneOf } from '../queue/fleet.ts';
import { Engine, type Step } from './engine.ts';

const isRefusal = (reply: Step['reply']): boolean =>
  reply instanceof OrchdError || (Array.isArray(reply) && reply.every((each) => each instanceof OrchdError));

test('E4: a step that refuses leaves no change behind', () => {
  let refusals = 0;
  fc.assert(
    fc.property(walkCommands(150), (commands) => {
      const check = (kit: EngineKit, step: Step, before: string): void => {
        if (!isRefusal(step.reply)) return;
        refusals++;
        assert.deepEqual(step.changes, []);
        assert.equal(stateText(kit.engine), before);
      };
      walk(commands, check, stateText);
    }),
    { numRuns: 100 },
  );
  assert.ok(refusals > 100, `only ${refusals} refusals were seen`);
});

test('a refused submission leaves no change behind, whatever else is submitted with it', () => {
  const kit = new EngineKit({ queueCapacity: 1 });
  const { reply, changes } = kit.step({
    type: 'submit',
    submissions: ['a', 'b'].map((id) => submission(id)),
  });
  const [first, second] = reply as readonly unknown[];
  assert.ok(!(first instanceof OrchdError) && second instanceof OrchdError);
  assert.deepEqual(
    changes.map(({ id }) => id),
    ['a'],
  );
});

/** Checks S2 and S3 of state.ts, Q1 and Q2 of queue.ts, and the counters against a fresh count. */
function checkState(kit: EngineKit): void {
  const { state, queue } = kit.engine;
  const jobs = [...state.jobs.values()];
  for (const entry of jobs) {
    const isReady = entry.job.state === 'queued' && entry.waitsUntil <= kit.now && state.roster.mayRun(entry);
    assert.equal(entry.isWaiting, isReady, `Q1: ${entry.uid} ${entry.job.state} ${entry.parked}`);
    const { tenant, spec } = entry.ask;
    const { key } = spec;
    if (key !== undefined && !isTerminal(entry.job.state)) {
      assert.equal(state.roster.byKey(tenant, key), entry, 'S3');
    }
    assert.ok(!entry.past || entry.past.every(({ state: each }) => !isOpen(each)));
  }
  for (const name of ['b1', 'b2', 'b3']) {
    const open = jobs.filter((entry) => entry.open?.backend === name && usesSlot(entry.open)).length;
    assert.equal(queue.fleet.usedSlots(name), open, 'Q2');
  }
  for (const each of JOB_STATES) {
    assert.equal(state.counts[each], jobs.filter(({ job }) => job.state === each).length, each);
  }
  const ready = jobs.filter(({ isWaiting }) => isWaiting);
  assert.equal(queue.waiting.batch.jobs + queue.waiting.interactive.jobs, ready.length);
}

test('after any events the indexes agree with the records', () => {
  fc.assert(
    fc.property(walkCommands(150), (commands) => {
      walk(commands, checkState);
    }),
    { numRuns: 100 },
  );
});

test('after any events no ready job waits while a backend that could run it is free', () => {
  const check = ({ engine: { state }, now }: EngineKit): void => {
    if (state.full) return;
    for (const entry of state.jobs.values()) {
      if (!entry.isWaiting) continue;
      const free = laneOf(entry)!.backends.filter(
        (each) => each.up && each.blockedUntil <= now && each.used < each.info.slots,
      );
      assert.deepEqual(
        free.map(({ info }) => info.name),
        [],
        `${entry.uid} waits`,
      );
    }
  };
  fc.assert(
    fc.property(walkCommands(150), (commands) => void walk(commands, check)),
    { numRuns: 100 },
  );
});

test('an attempt number is given once, and only grows', () => {
  fc.assert(
    fc.property(walkCommands(300), (commands) => {
      const last = new Map<string, number>();
      for (const { change } of walk(commands).log) {
        if (change.kind !== 'attempt' || change.after?.state !== 'intended' || change.after.kill) continue;
        const { job, n } = change.after;
        assert.ok(n > (last.get(job) ?? 0), `${job}:${n} after ${last.get(job)}`);
        last.set(job, n);
      }
    }),
    { numRuns: 100 },
  );
});

test('the same changes applied again give the same state', () => {
  fc.assert(
    fc.property(walkCommands(150), (commands) => {
      // That a job leaves memory is not a change: after a replay, Restore drops the jobs that are in the history.
      const kit = walk(commands.filter(({ kind }) => kind !== 'indexed'));
      const again = new Engine({ settings: { ...SETTINGS, ...WALK_SETTINGS }, random: () => 0 });
      for (const { change, at } of kit.log) again.state.apply(change, at);
      for (const entry of again.state.jobs.values()) again.state.settle(entry, kit.now);
      assert.equal(stateText(again), stateText(kit.engine));
    }),
    { numRuns: 100 },
  );
});

test('the same events at the same instants give the same changes', () => {
  fc.assert(
    fc.property(walkCommands(100), (commands) => {
      const [first, second] = [walk(commands), walk(commands)];
      assert.deepEqual(first.log, second.log);
    }),
    { numRuns: 50 },
  );
});

describe('the brain record', () => {
  test('keeps its owner, and its epoch grows by one with every opening', () => {
    const kit = new EngineKit();
    assert.deepEqual([kit.engine.state.brain?.owner, kit.engine.state.brain?.epoch], ['kit', 1]);
    kit.step({ type: 'open', owner: 'other' });
    assert.deepEqual([kit.engine.state.brain?.owner, kit.engine.state.brain?.epoch], ['kit', 2]);
  });
});

describe('ended jobs', () => {
  test('leave memory when the history has their current version, and not before', () => {
    const kit = new EngineKit();
    kit.submit('a');
    const waiting = kit.job('a').seq;
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq: waiting }] });
    assert.ok(kit.engine.state.jobs.has('a'), 'it has not ended');
    kit.cancel('a');
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq: waiting }] });
    assert.ok(kit.engine.state.jobs.has('a'), 'the history has an older image');
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq: kit.job('a').seq }] });
    assert.ok(!kit.engine.state.jobs.has('a'));
    assert.equal(kit.engine.state.counts.cancelled, 0);
  });

  test('stay while their attempt holds a slot', () => {
    const kit = new EngineKit();
    kit.backend('b');
    kit.submit('a');
    kit.cancel('a');
    kit.pass(5000);
    assert.equal(kit.state('a'), 'cancelled');
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq: kit.job('a').seq }] });
    assert.ok(kit.engine.state.jobs.has('a'));
    kit.killed('a', { is: 'tombstoned' });
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq: kit.job('a').seq }] });
    assert.ok(!kit.engine.state.jobs.has('a'));
  });
});

test('nextWake is the earliest of timers, unblocks and lease expiries', () => {
  const kit = new EngineKit();
  kit.submit('a', { deadline_ms: 500 });
  kit.submit('b', { not_before: START + 300 });
  assert.equal(kit.engine.nextWake(), START + 300);
  kit.pass(300);
  assert.equal(kit.engine.nextWake(), START + 500);
  kit.cancel('a');
  assert.equal(kit.engine.nextWake(), Number.POSITIVE_INFINITY);
});
