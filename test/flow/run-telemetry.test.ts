/** What is told of the runs of agents: lines, counts and traces, from what is durable. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { decisionsOf } from '../../src/agents/replay/decisions.ts';
import { loadRun } from '../../src/agents/replay/load.ts';
import { replayReport } from '../../src/agents/replay/replay-report.ts';
import { savedRun } from '../../src/agents/replay/saved-run.ts';
import type { Tool } from '../../src/index.ts';
import { CountingBackend } from '../fakes/counting-backend.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: clerk, model: scripted, plan: always, tools: [look, send, odd], approve: [send]}
  - {name: former, model: scripted, fallback: other, output: {type: object}}
`;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

class Tools {
  /** While set, a step that reads the effect of the tool `odd` throws. */
  isOdd = false;

  get all(): readonly Tool[] {
    const isOdd = (): boolean => this.isOdd;
    const tool = { description: 'A tool.', parameters: { type: 'object' }, effect: 'pure' } as const;
    return [
      { ...tool, name: 'look', run: () => 'hunter2 of the tool' },
      { ...tool, name: 'send', run: () => 'sent' },
      {
        ...tool,
        name: 'odd',
        get effect() {
          if (isOdd()) throw new TypeError('an odd tool');
          return 'pure' as const;
        },
        run: () => 'odd',
      },
    ];
  }
}

interface Site {
  readonly data?: string;
  readonly model: ScriptedModel;
  readonly tools?: Tools;
}

async function site(
  t: TestContext,
  { data = 'memory', model, tools = new Tools() }: Site,
): Promise<HttpBrain> {
  const brain = await httpBrain({
    ...placed({ data, config: CONFIG }),
    backends: [new CountingBackend(model.backend({ models: ['scripted', 'other'] }))],
    tools: tools.all,
  });
  t.after(() => brain.stop());
  return brain;
}

// biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
type Json = any;

async function call({ url }: HttpBrain, path: string, body: object, headers: object = {}): Promise<Json> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return response.json();
}

const start = (brain: HttpBrain, agent: string, headers?: object): Promise<Json> =>
  call(brain, `/v2/agents/${agent}/runs`, { run_id: 'r', input: 'hunter2 of the caller' }, headers);

interface Line extends Record<string, unknown> {
  readonly message: string;
  readonly event: string;
}

/** The lines of telemetry, in order. */
const linesOf = ({ logged }: HttpBrain): Line[] =>
  logged.map((line) => JSON.parse(line) as Line).filter(({ actor }) => actor === 'agents');

const moves = (lines: readonly Line[]): string[] =>
  lines.filter(({ message }) => message === 'state_transition').map(({ from, to }) => `${from} ${to}`);

const steps = (lines: readonly Line[], message: string): unknown[][] =>
  lines
    .filter((line) => line.message === message)
    .map(({ job_id, event, model_role, tool, tokens_used, outcome }) =>
      [job_id, event, model_role ?? tool, tokens_used, outcome].filter((value) => value !== undefined),
    );

/** The model plans, looks and sends at once, and answers. */
const script = (): ScriptedModel =>
  new ScriptedModel((turn) => {
    if (turn === 0) return { text: 'hunter2 of the model' };
    if (turn === 1)
      return {
        calls: [
          ['a', 'look', {}],
          ['b', 'send', {}],
        ],
      };
    return { text: 'hunter2 again' };
  });

async function approve(brain: HttpBrain, callId: string): Promise<void> {
  while ((await call(brain, '/v2/runs/r/approve', { call_id: callId, approve: true })).error);
}

describe('telemetry of a run', () => {
  onStores(
    '[ADR-8] tells every transition and step, with its ids and numbers and no text',
    LASTING,
    async (t, data) => {
      const brain = await site(t, { data, model: script() });
      await start(brain, 'clerk', { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` });
      await within(approve(brain, 'r.3.1'));
      const { result, usage } = await within(brain.orchestrator.wait('r'));
      assert.equal((result as Json).trace_id, TRACE);
      assert.equal(usage, undefined, 'the tokens are those of the calls');
      const lines = linesOf(brain);
      assert.deepEqual(moves(lines), [
        'init planning',
        'planning llm_call',
        'llm_call tool_execution',
        'tool_execution llm_call',
        'llm_call synthesis',
        'synthesis completed',
      ]);
      const sorted = (of: unknown[][]): string[] => of.map((each) => each.join(' ')).sort();
      assert.deepEqual(sorted(steps(lines, 'step_started')), [
        'r synthesis',
        'r.1 plan planner',
        'r.2 llm_call primary',
        'r.3.0 tool_call look',
        'r.3.1 approval send',
        'r.4.0 tool_call send',
        'r.5 llm_call primary',
      ]);
      assert.deepEqual(sorted(steps(lines, 'step_completed')), [
        'r synthesis succeeded',
        'r.1 plan planner 15 succeeded',
        'r.2 llm_call primary 15 succeeded',
        'r.3.0 tool_call look succeeded',
        'r.3.1 approval send succeeded',
        'r.4.0 tool_call send succeeded',
        'r.5 llm_call primary 15 succeeded',
      ]);
      for (const line of lines) {
        assert.deepEqual([line['trace_id'], line['run_id'], line['agent']], [TRACE, 'r', 'clerk']);
        assert.match(String(line['span_id']), /^[0-9a-f]{16}$/);
        assert.match(String(line['parent_span_id']), /^[0-9a-f]{16}$/);
        assert.match(line.event, /^(plan|llm_call|tool_call|approval|synthesis|end)$/);
        if (line.message !== 'step_started') assert.equal(typeof line['duration_ms'], 'number');
      }
      // A step that begins is the one that ends.
      const spans = (message: string): unknown[] =>
        lines
          .filter((line) => line.message === message)
          .map((line) => line['span_id'])
          .sort();
      assert.deepEqual(spans('step_started'), spans('step_completed'));
      assert.equal(new Set(spans('step_started')).size, 7);
      assert.doesNotMatch(JSON.stringify(lines), /hunter2/);
      const { runs } = brain.tally;
      assert.deepEqual(runs.ended, { completed: 1, failed: 0, cancelled: 0 });
      assert.equal(runs.steps.get('llm_call primary succeeded')?.count, 2);
      assert.equal(runs.defects, 0);
      const { text } = await metricsOf(brain);
      assert.match(text, /orchd_run_steps_total\{event="plan",model_role="planner",outcome="succeeded"\} 1/);
      assert.match(text, /orchd_run_step_duration_ms_count\{event="approval"\} 1/);
    },
  );

  onStores(
    '[ADR-8] is enough to reconstruct the run: its phases and calls are those of its record, which replays',
    LASTING,
    async (t, data) => {
      const brain = await site(t, { data, model: script() });
      await start(brain, 'clerk');
      await within(approve(brain, 'r.3.1'));
      await within(brain.orchestrator.wait('r'));
      const lines = linesOf(brain);
      const records = await loadRun((id) => brain.orchestrator.reads.recordedJob(id, 'default'), 'r');
      const phases: string[] = [];
      for await (const { advanced } of decisionsOf(records, records.head.record)) {
        const [from, ...entered] = advanced.phases;
        phases.push(...entered.map((to, at) => `${at === 0 ? from : entered[at - 1]} ${to}`));
      }
      assert.deepEqual(phases, moves(lines));
      const told = lines.filter(({ message, job_id }) => message === 'step_completed' && job_id !== 'r');
      const { calls } = await savedRun(records);
      assert.deepEqual(
        calls.map(({ job_id, tags, usage }) => [
          job_id,
          tags?.['event'],
          tags?.['model_role'] ?? tags?.['tool'],
          usage && usage.prompt_tokens + usage.completion_tokens,
        ]),
        told
          .map(({ job_id, event, model_role, tool, tokens_used }) => [
            job_id,
            event,
            model_role ?? tool,
            tokens_used,
          ])
          .sort(),
      );
      const { equal, has_end } = await replayReport(records, { is: 'recorded' });
      assert.deepEqual([equal, has_end], [true, true]);
    },
  );

  onStores('tells nothing twice after a restart, and what was begun ends', LASTING, async (t, data) => {
    const asked = Promise.withResolvers<void>();
    const said = Promise.withResolvers<{ text: string }>();
    const model = new ScriptedModel((turn) => {
      if (turn === 0) return { text: 'a plan' };
      asked.resolve();
      return said.promise;
    });
    const before = await site(t, { data, model });
    await start(before, 'clerk');
    await within(asked.promise);
    const stopped = before.stop();
    said.resolve({ text: 'late' });
    await within(stopped);
    const after = await site(t, { data, model: new ScriptedModel(() => ({ text: 'late' })) });
    const { result } = await within(after.orchestrator.wait('r'));
    const lines = [...linesOf(before), ...linesOf(after)];
    assert.deepEqual(moves(lines), [
      'init planning',
      'planning llm_call',
      'llm_call synthesis',
      'synthesis completed',
    ]);
    const told = lines.map(({ message, span_id, from, to }) => `${message} ${span_id} ${from} ${to}`);
    assert.equal(new Set(told).size, told.length, told.join('\n'));
    assert.ok(linesOf(before).length > 0 && linesOf(after).length > 0);
    const traces = new Set(lines.map((line) => line['trace_id']));
    assert.deepEqual([...traces], [(result as Json).trace_id]);
    assert.match((result as Json).trace_id, /^[0-9a-f]{32}$/);
    const ofCall = steps(lines, 'step_completed').filter(([job]) => job === 'r.2');
    assert.equal(ofCall.filter((step) => step.at(-1) === 'succeeded').length, 1);
  });

  test('names the fallback and the repair of an answer', async (t) => {
    const model = new ScriptedModel((turn, _heard, { model: name }) => {
      if (name === 'scripted') throw new Error('out of order');
      return { text: turn === 0 ? 'no JSON' : '{}' };
    });
    const brain = await site(t, { model });
    await start(brain, 'former');
    await within(brain.orchestrator.wait('r'));
    assert.deepEqual(steps(linesOf(brain), 'step_completed'), [
      ['r.1', 'llm_call', 'primary', 'failed'],
      ['r.2', 'llm_call', 'primary', 'failed'],
      ['r.3', 'llm_call', 'fallback', 15, 'succeeded'],
      ['r', 'synthesis', 'succeeded'],
      ['r.4', 'llm_call', 'repair', 'failed'],
      ['r.5', 'llm_call', 'repair', 'failed'],
      ['r.6', 'llm_call', 'fallback', 15, 'succeeded'],
      ['r', 'synthesis', 'succeeded'],
    ]);
    assert.deepEqual(moves(linesOf(brain)).slice(0, 4), [
      'init llm_call',
      'llm_call synthesis',
      'synthesis llm_call',
      'llm_call synthesis',
    ]);
  });

  test('a run that is cancelled ends as such, and what it decided meanwhile is not told', async (t) => {
    const began = Promise.withResolvers<void>();
    const model = new ScriptedModel((_turn, _heard, { signal }) => {
      began.resolve();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    });
    const brain = await site(t, { model });
    await start(brain, 'clerk');
    await within(began.promise);
    await call(brain, '/v2/runs/r/cancel', {});
    await within(brain.orchestrator.wait('r.1'));
    assert.deepEqual(moves(linesOf(brain)), ['init planning', 'planning cancelled']);
    assert.equal(brain.tally.runs.ended.cancelled, 1);
  });

  onStores('a step that throws ends the run with a reply, a count and an alert', LASTING, async (t, data) => {
    const tools = new Tools();
    const model = new ScriptedModel((turn) => {
      tools.isOdd = turn === 1;
      return turn === 1 ? { calls: [['a', 'odd', {}]] } : { text: 'fine' };
    });
    const brain = await site(t, { data, model, tools });
    await start(brain, 'clerk');
    const { state, result } = await within(brain.orchestrator.wait('r'));
    const { reply, steps: made, trace_id, error } = result as Json;
    assert.deepEqual([state, error.code, made.length], ['succeeded', 'INTERNAL', 1]);
    assert.match(reply, /could not be answered/);
    assert.match(trace_id, /^[0-9a-f]{32}$/);
    const [alert, ...more] = linesOf(brain).filter(({ message }) => message === 'agent_defect');
    assert.deepEqual(more, []);
    assert.partialDeepStrictEqual(alert, {
      level: 'error',
      event: 'agent_defect',
      run_id: 'r',
      agent: 'clerk',
      trace_id,
    });
    assert.deepEqual([brain.tally.runs.defects, brain.tally.runs.ended.failed], [1, 1]);
    assert.match((await metricsOf(brain)).text, /orchd_agent_defects_total 1/);
    assert.ok(brain.logged.some((line) => /a step of a run has failed.*TypeError at /.test(line)));
    // The brain goes on.
    const messages = [{ role: 'user', content: 'hello' }];
    const next = await brain.orchestrator.submit({ model: 'scripted', messages });
    assert.equal((await within(brain.orchestrator.wait(next.job_id))).state, 'succeeded');
  });
});

async function metricsOf({ url }: HttpBrain): Promise<{ text: string }> {
  return { text: await (await fetch(`${url}/metrics`)).text() };
}
