/** Every step alone, and every move of a run: one context in, one outcome out. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FunctionContext } from '../../backends/local/functions.ts';
import type { AgentDefinition } from '../../model/agent.ts';
import type { JobView } from '../../model/http/jobs.ts';
import { keptRun } from '../kept-run.ts';
import type { RunResult } from '../run.ts';
import { RUN_TRANSITIONS, type RunPhase } from '../run-phases.ts';
import { type EndedCall, goTo, newRun, type RunState, type Step, type ToolOffer } from '../run-state.ts';
import { AgentRunner } from '../runner.ts';
import { init } from './init.ts';
import { llmCall } from './llm-call.ts';
import { planning } from './planning.ts';
import { synthesis } from './synthesis.ts';
import { toolExecution } from './tool-execution.ts';

const PHASES = Object.keys(RUN_TRANSITIONS) as RunPhase[];
const UNENDED = PHASES.filter((phase) => RUN_TRANSITIONS[phase].length > 0);

const AGENT: AgentDefinition = { name: 'helper', model: 'fast', tools: ['look'] };
const TOOLS: ToolOffer = {
  definitions: [{ type: 'function', function: { name: 'look' } }],
  check: (tool, text) => (tool === 'look' ? { ok: true, args: text } : undefined),
  categoryOf: () => 'other',
  effectOf: () => 'pure',
  timeoutOf: () => 5000,
  placeOf: () => ({ backend: 'function' }),
  agentOf: () => undefined,
  faultOf: () => undefined,
  outputBytesOf: () => undefined,
  needsApproval: () => false,
};

const CALL = { id: 'a', type: 'function' as const, function: { name: 'look', arguments: '1' } };
const UNKNOWN = { ...CALL, function: { ...CALL.function, name: 'none' } };
const asks = (call: typeof CALL) => ({ role: 'assistant', content: '', tool_calls: [call] }) as const;
const ASKED = { jobId: 'r.2.0', callId: 'a', tool: 'look', hash: 'h' };

const runIn = (phase: RunPhase, changes: Partial<RunState> = {}, agent = AGENT): RunState => {
  const run = newRun(agent, [{ role: 'user', content: 'why?' }]);
  return { ...run, messages: [...run.messages, ...(changes.messages ?? [])], ...without(changes), phase };
};
const without = ({ messages: _, ...changes }: Partial<RunState>): Partial<RunState> => changes;

const says = (result: unknown, jobId = 'r.1'): EndedCall[] => [{ jobId, result, durationMs: 1 }];
const FAILED: EndedCall[] = [
  {
    jobId: 'r.1',
    result: undefined,
    error: { code: 'WORKER_TIMEOUT', message: 'too slow', retriable: true },
    durationMs: 1,
  },
];

const BRANCHED: AgentDefinition = { ...AGENT, branches: ['planner', 'critic'] };
const BRANCHES = ['planner', 'critic'].map((tool, at) => ({
  jobId: `r.1.${at}`,
  callId: tool,
  tool,
  hash: '',
}));

const bad = synthesis(() => 'it is no JSON');
const good = synthesis(undefined);

/** A step with its context, and what follows: another phase, or the jobs that the run waits for. */
const CASES: readonly {
  readonly step: Step;
  readonly run: RunState;
  readonly ended?: EndedCall[] | undefined;
  readonly to: RunPhase | readonly string[];
}[] = [
  { step: init, run: runIn('init'), to: 'llm_call' },
  { step: init, run: runIn('init', {}, { ...AGENT, plan: 'always' }), to: 'planning' },
  { step: planning, run: runIn('planning'), to: ['r.1'] },
  { step: planning, run: runIn('planning', { step: 1 }), ended: says({ text: '1. look' }), to: 'llm_call' },
  { step: planning, run: runIn('planning', { step: 1 }), ended: FAILED, to: ['r.2'] },
  { step: planning, run: runIn('planning', { step: 2, failures: 1 }), ended: FAILED, to: 'failed' },
  { step: planning, run: runIn('planning', {}, BRANCHED), to: ['r.1.0', 'r.1.1'] },
  {
    step: planning,
    run: runIn('planning', { step: 1, asked: BRANCHES }, BRANCHED),
    ended: [...says({ ok: true, text: 'so' }, 'r.1.0'), { ...FAILED[0]!, jobId: 'r.1.1' }],
    to: 'synthesis',
  },
  {
    step: planning,
    run: runIn('planning', { step: 1, asked: BRANCHES }, BRANCHED),
    ended: ['r.1.0', 'r.1.1'].map((jobId) => ({ ...FAILED[0]!, jobId })),
    to: 'failed',
  },
  { step: planning, run: runIn('planning', { runsLeft: 1 }, BRANCHED), to: 'failed' },
  { step: llmCall, run: runIn('llm_call'), to: ['r.1'] },
  { step: llmCall, run: runIn('llm_call', { step: 1 }), ended: says({ text: 'so' }), to: 'synthesis' },
  {
    step: llmCall,
    run: runIn('llm_call', { step: 1 }),
    ended: says({ text: '', tool_calls: [CALL] }),
    to: 'tool_execution',
  },
  { step: llmCall, run: runIn('llm_call', { step: 1 }), ended: FAILED, to: ['r.2'] },
  { step: llmCall, run: runIn('llm_call', { step: 2, failures: 1 }), ended: FAILED, to: 'failed' },
  { step: llmCall, run: runIn('llm_call', { step: 1 }), ended: [], to: 'failed' },
  {
    step: toolExecution,
    run: runIn('tool_execution', { step: 1, messages: [asks(CALL)] }),
    to: ['r.2.0'],
  },
  {
    step: toolExecution,
    run: runIn('tool_execution', { step: 1, messages: [asks(UNKNOWN)] }),
    to: 'llm_call',
  },
  {
    step: toolExecution,
    run: runIn('tool_execution', { step: 2, messages: [asks(CALL)], asked: [ASKED] }),
    ended: says({ ok: true, text: 'seen' }, 'r.2.0'),
    to: 'llm_call',
  },
  {
    step: toolExecution,
    run: runIn('tool_execution', { step: 2, messages: [asks(CALL)], asked: [ASKED] }),
    ended: [{ ...FAILED[0]!, jobId: 'r.2.0' }],
    to: 'llm_call',
  },
  { step: good, run: runIn('synthesis', { isMerging: true, step: 1 }), to: ['r.2'] },
  {
    step: good,
    run: runIn('synthesis', { isMerging: true, step: 2 }),
    ended: says({ text: 'merged' }, 'r.2'),
    to: 'synthesis',
  },
  {
    step: good,
    run: runIn('synthesis', { isMerging: true, step: 2 }),
    ended: says({ text: '', tool_calls: [CALL] }, 'r.2'),
    to: 'tool_execution',
  },
  { step: good, run: runIn('synthesis', { reply: 'so' }), to: 'completed' },
  { step: bad, run: runIn('synthesis', { reply: 'so' }), to: 'llm_call' },
  { step: bad, run: runIn('synthesis', { reply: 'so', isRepairing: true }), to: 'failed' },
];

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) frozen(part);
  }
  return value;
}

const outcomeOf = ({ step, run, ended }: (typeof CASES)[number]) =>
  step({ runId: 'r', priority: 'batch', run, ended, tools: TOOLS });

describe('a step of a run', () => {
  test('[ADR-1] returns the same next state for the same context, whatever ran before, and changes nothing of it', () => {
    const first = CASES.map((each) => outcomeOf(frozen(each)));
    // In the reverse order, and with copies: nothing is remembered between two calls, by value or by identity.
    const second = CASES.toReversed().map((each) =>
      outcomeOf({ ...each, ...structuredClone({ run: each.run, ended: each.ended }) }),
    );
    assert.deepEqual(second.toReversed(), first);
  });

  test('[ADR-1] leads to the next state of the table, or waits for the jobs it returns', () => {
    for (const each of CASES) {
      const { run, jobs } = outcomeOf(each);
      const name = `${each.step.name} in ${each.run.phase}`;
      if (typeof each.to === 'string') assert.deepEqual([run.phase, jobs.length], [each.to, 0], name);
      else {
        const ids = jobs.map(({ job_id }) => job_id);
        assert.deepEqual([run.phase, ids], [each.run.phase, each.to], name);
      }
    }
  });
});

test('[ADR-4] the model is told of each of its calls, in their order, also of those whose job has failed or is gone', () => {
  const calls = ['a', 'b', 'c', 'd'].map((id) => ({ ...CALL, id }));
  const asked = calls.map(({ id }, at) => ({ ...ASKED, jobId: `r.2.${at}`, callId: id }));
  const messages = [{ role: 'assistant', content: '', tool_calls: calls } as const];
  const ended: EndedCall[] = [
    { ...FAILED[0]!, jobId: 'r.2.2' },
    ...says({ ok: false, text: 'it is broken' }, 'r.2.1'),
    ...says({ ok: true, text: 'seen' }, 'r.2.0'),
  ];
  const run = runIn('tool_execution', { step: 2, messages, asked });
  const { run: next } = outcomeOf({ step: toolExecution, run, ended, to: 'llm_call' });
  assert.equal(next.phase, 'llm_call');
  const told = next.messages.filter(({ role }) => role === 'tool');
  assert.deepEqual(
    told.map(({ tool_call_id: id, content }) => [
      id,
      /seen|it is broken|too slow|no longer kept/.exec(content)?.[0],
    ]),
    [
      ['a', 'seen'],
      ['b', 'it is broken'],
      ['c', 'too slow'],
      ['d', 'no longer kept'],
    ],
  );
});

describe('the moves of a run', () => {
  test('[ADR-1] each one of the table is made by a step, or by a step that throws, and no other is', async () => {
    const walked = new Set<string>();
    for (const each of CASES) {
      const { phase } = outcomeOf(each).run;
      if (phase !== each.run.phase) walked.add(`${each.run.phase} -> ${phase}`);
    }
    for (const phase of UNENDED) {
      const { error } = await throwsIn(phase);
      assert.equal(error?.code, 'INTERNAL');
      walked.add(`${phase} -> failed`);
    }
    const table = UNENDED.flatMap((from) => RUN_TRANSITIONS[from].map((to) => `${from} -> ${to}`));
    assert.deepEqual([...walked].sort(), table.sort());
  });

  test('[ADR-1] has the seven states of a run, of which two are ends; an illegal move is a defect', () => {
    assert.deepEqual(PHASES.toSorted(), [
      'completed',
      'failed',
      'init',
      'llm_call',
      'planning',
      'synthesis',
      'tool_execution',
    ]);
    assert.deepEqual(
      PHASES.filter((phase) => !UNENDED.includes(phase)),
      ['completed', 'failed'],
    );
    for (const from of PHASES)
      for (const to of PHASES) {
        const move = () => goTo(runIn(from), to).run.phase;
        if ((RUN_TRANSITIONS[from] as readonly string[]).includes(to)) assert.equal(move(), to);
        else assert.throws(move, { message: `illegal move of a run ${from} -> ${to}` });
      }
  });
});

/** The result of a run that has come to this phase, and whose next step throws. */
async function throwsIn(phase: RunPhase): Promise<RunResult> {
  const runner = new AgentRunner({
    clock: { now: () => 0 },
    agent: () => AGENT,
    recorded: () => {
      throw new Error('no fork');
    },
    partsOf: () => {
      throw new Error('a defect');
    },
    job: async () => ({}) as JobView,
    conversation: async () => [],
    logger: undefined,
  });
  const waited = { state: keptRun(runIn(phase)).state, jobs: [], refused: [], woken: 'children' };
  return (await runner.run({}, {
    jobId: 'r',
    ancestors: [],
    traceId: 't',
    label: () => undefined,
    priority: 'batch',
    waited,
  } as unknown as FunctionContext)) as RunResult;
}
