/** Runs over the death of the brain's process: what has ended is not done again, and sessions keep their order. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { AgentProcess } from './agent-process.ts';
import { LASTING, onStores, WALKED } from './flow-kit.ts';

/** The calls of a run in order; `send` and `look` are made at once. */
const CALLS = ['model1', 'send', 'look', 'model2', 'read', 'model3'].map((name) => `r.${name}`);

describe('[ADR-9] a run whose brain is killed', () => {
  onStores(
    'goes on from its last finished step, at every step, and makes no call again that has ended',
    LASTING,
    async (t, data) => {
      const brain = new AgentProcess(t, { data, runs: [{ id: 'r' }] });
      await brain.killIn(['r.model1']);
      // `send` must not be repeated: it has ended when the process is killed in the call beside it.
      await brain.killIn(['r.look'], ['r.send']);
      for (const call of ['r.model2', 'r.read', 'r.model3']) await brain.killIn([call]);
      const { r } = await brain.finish();
      assert.deepEqual([r?.reply, r?.error], ['all is done', null]);
      const counts = (is: 'begin' | 'end') => CALLS.map((call) => [call, brain.count(call, is)]);
      assert.deepEqual(
        counts('end'),
        CALLS.map((call) => [call, 1]),
      );
      // Each call that was cut off is made once more, and no other.
      assert.deepEqual(
        counts('begin'),
        CALLS.map((call) => [call, call === 'r.send' ? 1 : 2]),
      );
      const done = r?.steps.filter(({ error }) => error === undefined);
      assert.deepEqual(
        done?.map(({ event, tool }) => tool ?? event),
        ['llm_call', 'send', 'look', 'llm_call', 'read', 'llm_call'],
      );
    },
  );
});

describe('a run without a fallback', () => {
  onStores(
    'whose model was cut off three times by the death of the brain asks it again, and answers',
    WALKED,
    async (t, data) => {
      const brain = new AgentProcess(t, { data, runs: [{ id: 'r' }] });
      for (let death = 0; death < 3; death++) await brain.killIn(['r.model1']);
      const { r } = await brain.finish();
      assert.deepEqual([r?.reply, r?.error], ['all is done', null]);
      assert.equal(brain.count('r.model1', 'begin'), 4);
      const codes = r?.steps.map(({ error }) => error).filter((error) => error !== undefined);
      assert.deepEqual(codes, Array(3).fill('UNKNOWN_OUTCOME'));
    },
  );
});

describe('runs of sessions', () => {
  onStores(
    '[ADR-3] of one session go one after the other, in order, also over the death of the brain; those of several overlap',
    WALKED,
    async (t, data) => {
      const runs = ['a1', 'a2', 'a3', 'b1', 'c1'].map((id) => ({ id, session: id.charAt(0) }));
      const brain = new AgentProcess(t, { data, runs });
      // The first runs of three sessions are under way at once; those behind them came earlier than two of these.
      await brain.killIn(['a1.model1', 'b1.model1', 'c1.model1']);
      assert.deepEqual(brain.calls.map(({ call }) => call).sort(), ['a1.model1', 'b1.model1', 'c1.model1']);
      // Killed again between two steps of the first run: it waits, and has no attempt that would hold its session.
      await brain.killIn(['a1.look', 'b1.model2'], ['a1.send']);
      const results = await brain.finish();
      for (const { id } of runs) assert.equal(results[id]?.reply, 'all is done');
      const inFirst = brain.calls
        .map(({ call }) => call.split('.')[0] as string)
        .filter((id) => /^a/.test(id));
      assert.deepEqual(
        inFirst.filter((id, at) => id !== inFirst[at - 1]),
        ['a1', 'a2', 'a3'],
      );
    },
  );
});
