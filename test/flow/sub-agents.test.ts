/** Agents that call other agents like tools: each call is a run below, with no more rights than those above it have. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createOrchestrator, type Tool } from '../../src/index.ts';
import type { Said } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { type Json, type Scripts, type Site, site } from './branch-kit.ts';
import { LASTING, onStores, refusalOf, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: boss, model: boss, instructions: Delegate., tools: [clerk]}
  - {name: clerk, model: clerk, description: Pays., instructions: Pay., tools: [look, pay]}
`;

class Tools {
  readonly done: string[] = [];
  readonly list: readonly Tool[] = [this.#tool('look', 'read'), this.#tool('pay', 'write')];

  #tool(name: string, category: string): Tool {
    return {
      name,
      category,
      description: `The tool ${name}.`,
      parameters: { type: 'object', properties: { to: { type: 'string' } } },
      effect: 'effectful',
      run: () => {
        this.done.push(name);
        return `${name} is done`;
      },
    };
  }
}

/** The boss gives one task to the clerk, who calls these tools at once; each says in the end what it was told. */
const scriptsOf = (...calls: string[]): Scripts => {
  const told = (messages: readonly { readonly content: string; readonly role: string }[]): Said => ({
    text: messages
      .filter(({ role }) => role === 'tool')
      .map(({ content }) => unmarked(content))
      .join('; '),
  });
  return {
    // The messages before the last question are those of earlier runs of the session.
    boss: (_turn, { messages }) => {
      const here = messages.slice(messages.findLastIndex(({ role }) => role === 'user'));
      return here.length === 1 ? { calls: [['a', 'clerk', { input: 'pay them' }]] } : told(here);
    },
    clerk: (turn, { messages }) =>
      turn === 0 && calls.length > 0
        ? { calls: calls.map((name, at) => [`c${at}`, name, {}]) }
        : told(messages),
  };
};

const replayOf = async (brain: Site, run: string): Promise<Json> =>
  (await brain.call('POST', `/v2/runs/${run}/replay`, {})).body;

describe('an agent as a tool', () => {
  onStores(
    'a call is a run below, which hears its task alone and answers to its caller',
    LASTING,
    async (t, data) => {
      const tools = new Tools();
      const heard: string[][] = [];
      const { boss, clerk } = scriptsOf('look', 'pay');
      const scripts: Scripts = {
        boss: boss as Scripts[string],
        clerk: (turn, said, context) => {
          heard.push(said.messages.map(({ role, content }) => `${role}: ${content.split('\n')[0]}`));
          return clerk?.(turn, said, context) as Said;
        },
      };
      const brain = await site(t, { data, config: CONFIG, scripts, tools: tools.list });
      await brain.run('boss', 'before', { session_id: 's' });
      tools.done.length = 0;
      heard.length = 0;
      const view = await brain.run('boss', 'r', { session_id: 's' });
      assert.deepEqual([view.state, view.reply], ['completed', 'look is done; pay is done']);
      assert.deepEqual(heard[0], ['system: Pay.', 'user: pay them']);
      assert.deepEqual(tools.done.sort(), ['look', 'pay']);
      const jobs = await brain.jobs('r');
      assert.deepEqual(jobs.map(({ job_id: id, type, agent }) => `${id} ${type} ${agent}`).sort(), [
        'r.1 inference boss',
        'r.2.0 agent clerk',
        'r.2.0.1 inference clerk',
        'r.2.0.2.0 tool clerk',
        'r.2.0.2.1 tool clerk',
        'r.2.0.3 inference clerk',
        'r.3 inference boss',
      ]);
      // What the clerk was told is no part of the conversation with the boss.
      const { body } = await brain.call('GET', '/v2/sessions/s/messages');
      const asked = body.messages.filter(({ role }: Json) => role === 'user');
      assert.deepEqual(
        asked.map(({ content }: Json) => content),
        ['why?', 'why?'],
      );
      const calls = brain.calls.length;
      for (const id of ['r', 'r.2.0']) {
        const { equal, difference, has_end: hasEnd } = await replayOf(brain, id);
        assert.deepEqual([equal, difference, hasEnd], [true, undefined, true], id);
      }
      assert.deepEqual([brain.calls.length, tools.done.length], [calls, 2], 'a replay calls nothing');
    },
  );

  onStores(
    'asks for more than its caller has, and is refused with a code that the audit has',
    LASTING,
    async (t, data) => {
      const tools = new Tools();
      const config = CONFIG.replace('tools: [clerk]', 'tools: [clerk], categories: [read, agent]');
      const brain = await site(t, { data, config, scripts: scriptsOf('look', 'pay'), tools: tools.list });
      const { reply } = await brain.run('boss', 'r');
      assert.match(
        reply ?? '',
        /^look is done; error: the call is not allowed: the agent "boss" may call no tools of the category "write"/,
      );
      assert.deepEqual(tools.done, ['look']);
      assert.deepEqual(
        (await brain.view('r.2.0')).steps?.flatMap(({ tool, error }) => (tool ? [[tool, error]] : [])),
        [
          ['look', undefined],
          ['pay', 'GOVERNANCE_DENIED'],
        ],
      );
      const { last_violations: violations } = (await brain.call('GET', '/v2/governance')).body;
      assert.deepEqual(
        violations.map(({ rule, job_id: job, tool }: Json) => [rule, job, tool]),
        [['rights:boss', 'r.2.0.2.1', 'pay']],
      );
      for (const id of ['r', 'r.2.0']) assert.equal((await replayOf(brain, id)).equal, true, id);
    },
  );

  onStores(
    'is not called without the right to call agents, however the call is made',
    LASTING,
    async (t, data) => {
      const config = `
agents:
  - {name: boss, model: boss, tools: [clerk], categories: [read]}
  - {name: team, model: boss, branches: [clerk], categories: [read]}
  - {name: clerk, model: clerk}
`;
      const brain = await site(t, { data, config, scripts: scriptsOf() });
      const { reply } = await brain.run('boss', 'r');
      assert.match(
        reply ?? '',
        /^error: the call is not allowed: the agent "boss" may call no tools of the category "agent"/,
      );
      assert.equal((await brain.run('team', 'b')).error?.code, 'GOVERNANCE_DENIED');
      // A caller of the API cannot say that a person has allowed it.
      await brain.start('boss', 'open');
      const below = { type: 'agent', parent_id: 'open', payload: { agent: 'clerk', input: 'x' } };
      const lie = await brain.call('POST', '/v2/tasks', { ...below, tags: { approved: 'yes' } });
      assert.equal(lie.body.error.code, 'INVALID_PARAMS');
    },
  );

  onStores(
    'and what it wants to call wait for a person, whom the run above asks, too; also after a restart',
    LASTING,
    async (t, data) => {
      const tools = new Tools();
      const config = CONFIG.replace(
        'tools: [clerk]}',
        'tools: [clerk], approve: [clerk], approval_wait_ms: 600000}',
      ).replace('pay]}', 'pay], approve: [pay], approval_wait_ms: 600000}');
      const options = { data, config, scripts: scriptsOf('pay'), tools: tools.list };
      const before = await site(t, options);
      await before.start('boss', 'r');
      const [call] = await before.asked(1);
      assert.deepEqual([call.run_id, call.tool, call.args], ['r', 'clerk', { input: 'pay them' }]);
      await before.brain.stop();
      const between = await site(t, options);
      await between.call('POST', '/v2/runs/r/approve', { call_id: call.call_id, approve: true });
      await between.until('r', ({ waits_for: waits }) => waits?.[0]?.type === 'agent');
      const [below] = await between.asked(1);
      assert.deepEqual([below.run_id, below.tool], ['r.3.0', 'pay']);
      await between.brain.stop();
      const brain = await site(t, options);
      await brain.until('r', ({ state }) => state === 'awaiting_approval');
      assert.deepEqual(tools.done, []);
      const answer = { call_id: below.call_id, approve: true };
      assert.equal((await brain.call('POST', '/v2/runs/other/approve', answer)).status, 404);
      assert.equal((await brain.call('POST', '/v2/runs/r/approve', answer)).status, 200);
      assert.equal((await brain.end('r')).reply, 'pay is done');
      assert.equal((await replayOf(brain, 'r')).equal, true);
    },
  );

  onStores('is paused, resumed and cancelled with the run above', LASTING, async (t, data) => {
    const opened = Promise.withResolvers<void>();
    const scripts: Scripts = {
      ...scriptsOf('pay'),
      clerk: async (turn) => {
        if (turn > 0) return { text: 'paid' };
        await opened.promise;
        return { calls: [['c', 'pay', {}]] };
      },
    };
    const tools = new Tools();
    const brain = await site(t, { data, config: CONFIG, scripts, tools: tools.list });
    for (const run of ['r', 'x']) {
      await brain.start('boss', run);
      await brain.until(run, () => brain.calls.includes(`+${run}.2.0.1`));
    }
    await brain.call('POST', '/v2/runs/r/pause');
    await brain.call('POST', '/v2/runs/x/cancel');
    opened.resolve();
    const { orchestrator } = brain.brain;
    await within(orchestrator.wait('r.2.0.1'));
    const states = async (root: string): Promise<string[]> =>
      (await brain.jobs(root)).map(({ job_id: id, state }) => `${id} ${state}`);
    // A later run comes to its end: what is not paused has been started by then.
    assert.equal((await brain.run('boss', 'later')).reply, 'paid');
    assert.deepEqual(tools.done, ['pay'], 'that of the later run alone');
    assert.ok(!(await states('r')).some((job) => job.startsWith('r.2.0.2.0')));
    assert.ok((await states('x')).includes('x.2.0 cancelled'));
    assert.ok(!(await states('x')).some((job) => job.startsWith('x.2.0.2')));
    await brain.call('POST', '/v2/runs/r/resume');
    assert.equal((await brain.end('r')).reply, 'paid');
  });

  onStores('begins no more runs than the topmost may have, at whatever depth', LASTING, async (t, data) => {
    const config = `
agents:
  - {name: top, model: all, tools: [middle], max_runs: 7, parallel_tools: 3, max_steps: 6}
  - {name: middle, model: all, tools: [leaf], parallel_tools: 3, max_steps: 6}
  - {name: leaf, model: leaf}
`;
    const scripts: Scripts = {
      // Asks for three agents in every turn in which it may.
      all: (turn, { tools, messages }, { jobId }) => {
        if (!tools)
          return {
            text: `${messages.filter(({ content }) => /no more agents/.test(content)).length} refused`,
          };
        const name = jobId.split('.').length === 2 ? 'middle' : 'leaf';
        return { calls: [0, 1, 2].map((at) => [`c${turn}-${at}`, name, { input: `${turn} ${at}` }]) };
      },
      leaf: () => ({ text: 'leaf' }),
    };
    const brain = await site(t, { data, config, scripts });
    const view = await brain.run('top', 'r');
    const runs = (await brain.jobs('r')).filter(({ type }) => type === 'agent');
    assert.ok(runs.length >= 6 && runs.length <= 7, `${runs.length} runs`);
    assert.match(view.reply ?? '', /^[1-9]\d* refused$/);
    assert.ok(view.steps?.some(({ error }) => error === 'NO_RUNS_LEFT'));
    assert.equal((await replayOf(brain, 'r')).equal, true);
    const none = await brain.run('top', 'n', { max_runs: 0 });
    assert.equal((await brain.jobs('n')).filter(({ type }) => type === 'agent').length, 0);
    assert.equal(none.state, 'completed');
  });

  onStores('is told of in the stream and in the telemetry of the run above', LASTING, async (t, data) => {
    const tools = new Tools();
    const brain = await site(t, { data, config: CONFIG, scripts: scriptsOf('pay'), tools: tools.list });
    await brain.start('boss', 'r');
    const response = await fetch(`${brain.brain.url}/v2/runs/r/events`);
    const text = await within(response.text());
    const events = [...text.matchAll(/event: (\w+)\ndata: (.*)/g)].map(([, event, json]) => ({
      event,
      data: JSON.parse(json as string),
    }));
    const result = events.find(({ event }) => event === 'tool_result');
    assert.deepEqual([result?.data.tool, result?.data.result], ['clerk', { ok: true, text: 'pay is done' }]);
    const lines = brain.brain.logged
      .map((line) => JSON.parse(line))
      .filter(({ actor, event }) => actor === 'agents' && event === 'tool_call');
    const ofCall = lines.filter(({ job_id: id, message }) => id === 'r.2.0' && /step_/.test(message));
    assert.deepEqual(
      ofCall.map(({ message, run_id: run, tool, outcome }) => [message, run, tool, outcome]),
      [
        ['step_started', 'r', 'clerk', undefined],
        ['step_completed', 'r', 'clerk', 'succeeded'],
      ],
    );
    const traces = brain.brain.logged
      .map((line) => JSON.parse(line))
      .filter(({ actor, run_id: run }) => actor === 'agents' && run);
    assert.deepEqual([...new Set(traces.map(({ trace_id: trace }) => trace))].length, 1, 'one trace');
    const runs = [...new Set(traces.map(({ run_id: run }) => run))].sort();
    assert.deepEqual(runs, ['r', 'r.2.0']);
  });

  test('is refused in a circle, too deep, and with the name of a tool', async () => {
    const chain = (length: number): string =>
      Array.from(
        { length },
        (_, at) => `{name: a${at}, model: m${at + 1 < length ? `, tools: [a${at + 1}]` : ''}}`,
      ).join();
    const REFUSED: Readonly<Record<string, RegExp>> = {
      '{name: a, model: m, tools: [a]}': /without end: a -> a/,
      '{name: a, model: m, tools: [b]}, {name: b, model: m, tools: [c]}, {name: c, model: m, branches: [a]}':
        /a -> b -> c -> a/,
      [chain(6)]: /at most 5 agents call each other, and "a0" is the first of 6/,
      '{name: a, model: m, tools: [current_time]}, {name: current_time, model: m}':
        /the name of a tool and of an agent/,
      '{name: a, model: m, tools: [current_time], background: [current_time]}':
        /that could work in the background/,
    };
    for (const [agents, message] of Object.entries(REFUSED)) {
      const refusal = await refusalOf(() =>
        createOrchestrator({ data: 'memory', config: `agents: [${agents}]`, backends: [] }),
      );
      assert.deepEqual(
        [refusal.code, message.test(refusal.message)],
        ['INVALID_PARAMS', true],
        refusal.message,
      );
    }
    const orchestrator = await createOrchestrator({
      data: 'memory',
      config: `agents: [${chain(5)}]`,
      backends: [],
    });
    await orchestrator.stop();
  });
});
