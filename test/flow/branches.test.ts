/** Branches: several agents work on a question at once, and the synthesis merges what they say. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loadConfig } from '../../src/config/load.ts';
import { createOrchestrator } from '../../src/index.ts';
import type { Heard, Said } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { type Json, type Scripts, type Site, site } from './branch-kit.ts';
import { LASTING, onStores, refusalOf } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: team, model: merger, instructions: Merge., branches: [planner, critic], tools: [look]}
  - {name: planner, model: plans, instructions: Plan it.}
  - {name: critic, model: doubts, instructions: Doubt it.}
`;

const LOOK = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: () => 'seen',
} as const;

const SAYS: Scripts = {
  plans: () => ({ text: 'look first' }),
  doubts: () => ({ text: 'there is nothing to see' }),
  merger: () => ({ text: 'merged' }),
};

const saidIn = ({ messages }: Heard): string[] => messages.map(({ role, content }) => `${role}: ${content}`);

/** Both are told that the other one has begun before either ends. */
function meeting(count: number): () => Promise<void> {
  const all = Promise.withResolvers<void>();
  let come = 0;
  return () => {
    if (++come === count) all.resolve();
    return all.promise;
  };
}

const replayOf = async (brain: Site, run: string): Promise<Json> =>
  (await brain.call('POST', `/v2/runs/${run}/replay`, {})).body;

describe('branches', () => {
  onStores(
    '[ADR-10] planner and critic have models and instructions of their own, work at once, and the synthesis merges what they say',
    LASTING,
    async (t, data) => {
      const heard: Record<string, string[]> = {};
      const met = meeting(2);
      const noting =
        (name: string, say: (turn: number) => Said, wait: () => Promise<void>) =>
        async (turn: number, said: Heard) => {
          heard[name] = saidIn(said);
          await wait();
          return say(turn);
        };
      const scripts: Scripts = {
        plans: noting('planner', () => ({ text: 'look first' }), met),
        doubts: noting('critic', () => ({ text: 'nothing is there' }), met),
        merger: noting(
          'merger',
          (turn) => (turn === 0 ? { calls: [['c', 'look', {}]] } : { text: 'merged' }),
          async () => undefined,
        ),
      };
      const brain = await site(t, { data, config: CONFIG, scripts, tools: [LOOK] });
      const view = await brain.run('team', 'r');
      assert.deepEqual([view.state, view.reply], ['completed', 'merged']);
      assert.deepEqual(heard['planner'], ['system: Plan it.', 'user: why?']);
      assert.deepEqual(heard['critic'], ['system: Doubt it.', 'user: why?']);
      const merged = heard['merger']?.map((text) => unmarked(text.replace(/^\w+: /, '')));
      assert.ok(
        heard['merger']?.some((text) => /^user: planner says:\n--- data \w+ ---\nlook first\n/.test(text)),
      );
      assert.ok(
        heard['merger']?.some((text) =>
          /^user: critic says:\n--- data \w+ ---\nnothing is there\n/.test(text),
        ),
      );
      assert.equal(merged?.at(-1), 'seen', 'the synthesis may call tools');
      assert.deepEqual(
        view.steps?.map(({ event, job_id: id, tool }) => [event, id, tool]),
        [
          ['branch', 'r.1.0', 'planner'],
          ['branch', 'r.1.1', 'critic'],
          ['synthesis', 'r.2', undefined],
          ['tool_call', 'r.3.0', 'look'],
          ['llm_call', 'r.4', undefined],
        ],
      );
      const calls = brain.calls.length;
      for (const id of ['r', 'r.1.0', 'r.1.1']) {
        const { equal, difference, has_end: hasEnd } = await replayOf(brain, id);
        assert.deepEqual([equal, difference, hasEnd], [true, undefined, true], id);
      }
      assert.equal(brain.calls.length, calls, 'a replay calls nothing');
    },
  );

  onStores('and what merges them finish on a single seat', LASTING, async (t, data) => {
    const brain = await site(t, { data, config: CONFIG, scripts: SAYS, tools: [LOOK], slots: 1 });
    const runs = ['a', 'b', 'c'];
    for (const run of runs) await brain.start('team', run);
    for (const run of runs) assert.equal((await brain.end(run)).reply, 'merged');
    const open = brain.calls.map((line) => (line.startsWith('+') ? 1 : -1));
    const counts = open.map((_, at) => open.slice(0, at + 1).reduce((sum, each) => sum + each, 0));
    const most = Math.max(...counts);
    assert.deepEqual([most, open.length], [1, 2 * 3 * runs.length], 'one call at a time, three for each run');
  });

  onStores('one that fails does not end the run; without any answer it fails', LASTING, async (t, data) => {
    let fails = false;
    const broken = (): Said => {
      throw new Error('out of order');
    };
    const plans = (): Said => (fails ? broken() : { text: 'look first' });
    const brain = await site(t, {
      data,
      config: CONFIG,
      scripts: { ...SAYS, doubts: broken, plans },
      tools: [LOOK],
    });
    const one = await brain.run('team', 'one');
    assert.deepEqual(
      [one.reply, one.steps?.map(({ error }) => error)],
      ['merged', [undefined, 'EXECUTION_FAILED', undefined]],
    );
    fails = true;
    const none = await brain.run('team', 'none');
    assert.deepEqual([none.state, none.error?.code], ['failed', 'EXECUTION_FAILED']);
    assert.ok(!brain.calls.includes('+none.2'), 'nothing is merged');
    for (const id of ['one', 'none']) assert.equal((await replayOf(brain, id)).equal, true, id);
  });

  onStores(
    'a budget that one of them reaches stops all of the run, and is never exceeded',
    LASTING,
    async (t, data) => {
      const config = `
agents:
  - {name: team, model: merger, branches: [greedy, modest], max_tokens: 100, budget: {tokens: 4000}}
  - {name: greedy, model: plans, tools: [look], max_tokens: 100, max_steps: 500}
  - {name: modest, model: doubts, tools: [look], max_tokens: 100, max_steps: 500}
`;
      const isLast = ({ messages }: Heard): boolean =>
        messages.some(({ content }) => /budget of this task/.test(content));
      const again = (turn: number, heard: Heard): Said =>
        isLast(heard) ? { text: 'as far as I know' } : { calls: [[`c${turn}`, 'look', { turn }]] };
      const look = { ...LOOK, parameters: { type: 'object', properties: { turn: { type: 'integer' } } } };
      const brain = await site(t, {
        data,
        config,
        scripts: { plans: again, doubts: again, merger: () => ({ text: 'merged' }) },
        tools: [look],
      });
      await brain.start('team', 'r');
      const used: number[] = [];
      const view = await brain.until('r', ({ budget, state }) => {
        used.push(budget?.tokens_used ?? 0);
        return state === 'completed' || state === 'failed';
      });
      assert.ok(Math.max(...used) > 2000 && Math.max(...used) <= 4000, `${Math.max(...used)} tokens`);
      assert.equal(view.state, 'completed', 'it is answered with what is kept back for that');
      const jobs = await brain.jobs('r');
      assert.deepEqual(
        jobs.filter(({ state }) => state !== 'succeeded').map(({ job_id: id, state }) => [id, state]),
        [],
      );
      // Each of the two was told to end, although neither has a budget of its own.
      const ends = ['r.1.0', 'r.1.1'].map(async (id) => (await brain.view(id)).reply);
      assert.deepEqual(await Promise.all(ends), ['as far as I know', 'as far as I know']);
      for (const id of ['r', 'r.1.0', 'r.1.1']) assert.equal((await replayOf(brain, id)).equal, true, id);
    },
  );

  test('are refused where they are no agents, lead back to their agent, or stand beside a plan', async () => {
    const REFUSED: Readonly<Record<string, RegExp>> = {
      '{name: a, model: m, branches: [nobody]}': /there is no such agent/,
      '{name: a, model: m, branches: [a]}': /without end: a -> a/,
      '{name: a, model: m, branches: [b]}, {name: b, model: m, tools: [a]}': /without end: a -> b -> a/,
      '{name: a, model: m, branches: [b], plan: always}, {name: b, model: m}': /take the place of a plan/,
    };
    for (const [agents, message] of Object.entries(REFUSED)) {
      const config = `agents: [${agents}]`;
      loadConfig({ text: config });
      const refusal = await refusalOf(() => createOrchestrator({ data: 'memory', config, backends: [] }));
      assert.equal(refusal.code, 'INVALID_PARAMS', agents);
      assert.match(refusal.message, message);
    }
  });
});
