/** Runs of agents, on every store: steps, tools, failures, restarts. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { Orchestrator, Tool } from '../../src/index.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { LASTING, onStores, STORES, start, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: helper, model: scripted, instructions: Help., tools: [left, right, broken, send]}
  - {name: planner, model: scripted, plan: always}
`;

/** Tools that note their calls; `left` and `right` end only once both of them have begun. */
class Bench {
  readonly calls: string[] = [];
  readonly #both = Promise.withResolvers<void>();

  #note(name: string): void {
    this.calls.push(name);
    if (this.calls.includes('left') && this.calls.includes('right')) this.#both.resolve();
  }

  readonly tools: readonly Tool[] = [
    this.#tool('left', 'pure', () => this.#both.promise.then(() => 'from the left')),
    this.#tool('right', 'idempotent', () => this.#both.promise.then(() => ({ from: 'the right' }))),
    this.#tool('broken', 'pure', () => {
      throw new Error('it is broken');
    }),
    this.#tool('send', 'effectful', () => 'sent'),
  ];

  #tool(name: string, effect: Tool['effect'], run: () => unknown): Tool {
    const parameters = { type: 'object', properties: {}, additionalProperties: false };
    return {
      name,
      description: `The tool ${name}.`,
      parameters,
      effect,
      run: () => {
        this.#note(name);
        return run();
      },
    };
  }
}

const begin = (
  t: TestContext,
  data: string,
  model: ScriptedModel,
  bench = new Bench(),
): Promise<Orchestrator> =>
  start(t, { data, config: CONFIG, backends: [model.backend()], tools: bench.tools });

const ask = (brain: Orchestrator, id: string, agent = 'helper') =>
  brain.submit({ job_id: id, type: 'agent', payload: { agent, input: 'what now?' } });

const ALL_TOOLS = [
  ['a', 'left', {}],
  ['b', 'right', {}],
  ['c', 'broken', {}],
] as const;

describe('a run of an agent', () => {
  onStores(
    'calls tools at the same time, hears what they say and what fails, and replies',
    STORES,
    async (t, data) => {
      const model = new ScriptedModel((turn) => (turn === 0 ? { calls: ALL_TOOLS } : { text: 'all done' }));
      const bench = new Bench();
      const brain = await begin(t, data, model, bench);
      await ask(brain, 'r');
      const { state, result } = await within(brain.wait('r'));
      const { reply, error, steps } = result as {
        reply: string;
        error: unknown;
        steps: { job_id: string }[];
      };
      assert.deepEqual([state, reply, error], ['succeeded', 'all done', null]);
      assert.deepEqual(
        steps.map(({ job_id }) => job_id),
        ['r.1', 'r.2.0', 'r.2.1', 'r.2.2', 'r.3'],
      );
      assert.deepEqual([...bench.calls].sort(), ['broken', 'left', 'right']);
      const told = model.heard[1]?.messages
        .filter(({ role }) => role === 'tool')
        .map(({ content }) => unmarked(content));
      assert.deepEqual(told, ['from the left', '{"from":"the right"}', 'error: it is broken']);
      for (const id of ['r.1', 'r.2.0', 'r.2.2', 'r.3'])
        assert.equal((await brain.get(id)).state, 'succeeded');
    },
  );

  onStores('plans first, where the rule of its agent says so', STORES, async (t, data) => {
    const model = new ScriptedModel((turn) => ({ text: turn === 0 ? '1. think' : 'thought' }));
    const brain = await begin(t, data, model);
    await ask(brain, 'r', 'planner');
    const { result } = await within(brain.wait('r'));
    const { steps, reply } = result as { steps: { event: string }[]; reply: string };
    assert.deepEqual([reply, steps.map(({ event }) => event)], ['thought', ['plan', 'llm_call']]);
  });

  onStores('goes on after a restart; a call that has ended is not made again', LASTING, async (t, data) => {
    const asked = Promise.withResolvers<void>();
    const said = Promise.withResolvers<{ text: string }>();
    const first = new ScriptedModel((turn) => {
      if (turn === 0) return { calls: [['a', 'send', {}]] };
      asked.resolve();
      return said.promise;
    });
    const bench = new Bench();
    const before = await begin(t, data, first, bench);
    await ask(before, 'r');
    await within(asked.promise);
    const stopped = before.stop();
    // Nothing is started any more: the run hears of this answer only after the restart.
    said.resolve({ text: 'late' });
    await within(stopped);
    const second = new ScriptedModel(() => ({ text: 'another' }));
    const after = await begin(t, data, second, bench);
    const { result, attempts } = await within(after.wait('r'));
    assert.equal((result as { reply: string }).reply, 'late');
    assert.deepEqual([bench.calls, second.heard.length], [['send'], 0]);
    // Those that ended by waiting are not kept.
    assert.deepEqual(
      attempts.map(({ outcome }) => outcome),
      ['succeeded'],
    );
  });

  onStores('that asks for what is not there fails with a clear error', STORES, async (t, data) => {
    const brain = await begin(t, data, new ScriptedModel(() => ({})));
    const unknown = await brain.submit({ type: 'agent', payload: { agent: 'helpr', input: 'x' } });
    const { state, error } = await within(brain.wait(unknown.job_id));
    assert.deepEqual([state, error?.code], ['dead', 'NOT_FOUND']);
    assert.match(error?.message ?? '', /there is no agent "helpr".*helper/);
    const empty = await brain.submit({ type: 'agent', payload: { agent: 'helper' } });
    assert.equal((await within(brain.wait(empty.job_id))).error?.code, 'INVALID_PARAMS');
  });

  onStores('is cancelled with the jobs below it', STORES, async (t, data) => {
    const began = Promise.withResolvers<void>();
    const model = new ScriptedModel((_turn, _heard, { signal }) => {
      began.resolve();
      return new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new Error('stopped'))),
      );
    });
    const brain = await begin(t, data, model);
    await ask(brain, 'r');
    await within(began.promise);
    await brain.cancel('r');
    assert.equal((await within(brain.wait('r'))).state, 'cancelled');
    assert.equal((await within(brain.wait('r.1'))).state, 'cancelled');
  });
});
