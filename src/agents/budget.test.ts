/** When a run asks for its last answer, and what it does where there is no room for one. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AgentDefinition, RunBudget } from '../model/agent.ts';
import { leftOf, smallerBudget } from './budget.ts';
import { type Advanced, advance, resultOf } from './run.ts';
import {
  type BudgetLeft,
  type ChildJob,
  type EndedCall,
  newRun,
  type RunState,
  type ToolOffer,
} from './run-state.ts';

const TOOLS: ToolOffer = {
  definitions: [{ type: 'function', function: { name: 'send' } }],
  check: (_tool, text) => ({ ok: true, args: text }),
  categoryOf: () => 'other',
  effectOf: () => 'effectful',
  timeoutOf: () => 5000,
  needsApproval: () => false,
  placeOf: () => ({ backend: 'function' }),
  agentOf: () => undefined,
  faultOf: () => undefined,
  outputBytesOf: () => undefined,
};

const CALL = { id: 'c', type: 'function', function: { name: 'send', arguments: '{}' } };
const asksForTool = { text: '', tool_calls: [CALL] };

interface Asked {
  readonly payload: { readonly max_tokens?: number; readonly tools?: unknown; readonly messages: unknown[] };
  readonly deadline_ms?: number;
  readonly type: string;
}

class Played {
  run: RunState;
  last: Advanced | undefined;

  constructor(budget: RunBudget | undefined, agent: Partial<AgentDefinition> = {}) {
    this.run = newRun(
      { name: 'a', model: 'm', tools: ['send'], ...agent },
      [{ role: 'user', content: 'why?' }],
      [],
      budget,
    );
  }

  next(left: BudgetLeft | undefined, end?: Partial<EndedCall>): Asked | undefined {
    const of = { runId: 'r', priority: 'interactive', tools: TOOLS, checkOutput: undefined, left } as const;
    const waited: readonly ChildJob[] = this.last?.is === 'waits' ? this.last.jobs : [];
    const ended = waited.map(({ job_id: jobId }) => ({ jobId, result: undefined, durationMs: 0, ...end }));
    this.last = advance(of, this.run, ended.length > 0 ? ended : undefined);
    this.run = JSON.parse(JSON.stringify(this.last.run));
    return this.last.is === 'waits' ? (this.last.jobs[0] as unknown as Asked) : undefined;
  }

  get result() {
    return resultOf('r', this.run);
  }
}

const over = (reason: string): Partial<EndedCall> => ({
  error: { code: 'ADMISSION_REJECT', message: 'too much', retriable: false, reason } as never,
  isRefused: true,
});

const toldThatOver = (asked: Asked | undefined): boolean =>
  JSON.stringify(asked?.payload.messages).includes('budget of this task is used up');

describe('a budget of tokens', () => {
  test('bounds every answer so that another one still fits', () => {
    const asked = new Played({ tokens: 1000 }).next({ tokens: 1000 });
    const most = asked?.payload.max_tokens ?? 0;
    assert.ok(most > 64 && 2 * most < 1000, String(most));
    assert.ok(asked?.payload.tools);
    assert.equal(
      new Played({ tokens: 1000 }, { max_tokens: 70 }).next({ tokens: 1000 })?.payload.max_tokens,
      70,
    );
  });

  test('that has room for one answer alone is for the last one: without tools, and no longer than what is left', () => {
    const played = new Played({ tokens: 200 });
    const asked = played.next({ tokens: 100 });
    assert.ok(toldThatOver(asked));
    assert.equal(asked?.payload.tools, undefined);
    assert.ok((asked?.payload.max_tokens ?? 0) < 100);
    played.next({ tokens: 10 }, { result: { text: 'so far', tool_calls: [CALL] } });
    assert.deepEqual([played.result.reply, played.result.error], ['so far', null]);
  });

  test('without room for an answer ends the run, which keeps its steps', () => {
    const played = new Played({ tokens: 2000 });
    played.next({ tokens: 2000 });
    played.next({ tokens: 1900 }, { result: asksForTool });
    const asked = played.next({ tokens: 20 }, { result: { ok: true, text: 'sent' } });
    assert.equal(asked, undefined);
    const { error, steps, trace_id: trace } = played.result;
    assert.deepEqual(
      [error?.code, steps.map(({ event }) => event), trace],
      ['BUDGET_EXHAUSTED', ['llm_call', 'tool_call'], 'r'],
    );
    assert.match(JSON.stringify(played.run.messages), /sent/, 'the result of the tool is kept');
  });
});

for (const reason of ['token_budget', 'cost_budget'])
  test(`a call that is refused for its ${reason} is made again as the last one, and that one once`, () => {
    for (const left of [undefined, { cost: 50 }]) {
      const played = new Played(left && { cost: 50 });
      assert.ok(played.next(left)?.payload.tools);
      const last = played.next(left, over(reason));
      assert.ok(toldThatOver(last));
      assert.deepEqual([last?.payload.tools, last?.payload.max_tokens], [undefined, 256]);
      assert.equal(played.next(left, over(reason)), undefined);
      assert.equal(played.result.error?.code, 'BUDGET_EXHAUSTED');
    }
  });

test('under a budget of money every answer has a bound', () => {
  assert.equal(new Played({ cost: 9 }).next({ cost: 9 })?.payload.max_tokens, 1024);
  assert.equal(new Played(undefined).next(undefined)?.payload.max_tokens, undefined);
});

describe('a budget of time', () => {
  test('ends calls in time for the last answer, and that one in time for the end', () => {
    const played = new Played({ wall_ms: 1000 });
    assert.equal(played.next({ untilWrapUpMs: 850, untilEndMs: 1000 })?.deadline_ms, 850);
    const tool = played.next({ untilWrapUpMs: 400, untilEndMs: 550 }, { result: asksForTool });
    assert.deepEqual([tool?.type, tool?.deadline_ms], ['tool', 400]);
    const error = { code: 'DEADLINE_EXCEEDED', message: 'too late', retriable: false } as const;
    const last = played.next({ untilWrapUpMs: -1, untilEndMs: 149 }, { error });
    assert.deepEqual([toldThatOver(last), last?.deadline_ms, last?.payload.tools], [true, 149, undefined]);
    assert.match(JSON.stringify(last?.payload.messages), /It may have been done all the same/);
    played.next({ untilWrapUpMs: -100, untilEndMs: 50 }, { result: { text: 'in time' } });
    assert.equal(played.result.reply, 'in time');
  });

  test('makes a call of the model that was cut off the last one, and no call of a tool any more', () => {
    const error = { code: 'DEADLINE_EXCEEDED', message: 'too late', retriable: false } as const;
    const played = new Played({ wall_ms: 1000 });
    played.next({ untilWrapUpMs: 850, untilEndMs: 1000 });
    assert.ok(toldThatOver(played.next({ untilWrapUpMs: 0, untilEndMs: 150 }, { error })));
    played.next({ untilWrapUpMs: -150, untilEndMs: 0 }, { error });
    assert.equal(played.result.error?.code, 'BUDGET_EXHAUSTED');
    const late = new Played({ wall_ms: 1000 });
    late.next({ untilWrapUpMs: 1, untilEndMs: 150 });
    const asked = late.next({ untilWrapUpMs: 0, untilEndMs: 149 }, { result: asksForTool });
    assert.deepEqual([asked?.type, toldThatOver(asked)], ['inference', true]);
  });

  test('that is over ends the run', () => {
    const played = new Played({ wall_ms: 1000 });
    assert.equal(played.next({ untilWrapUpMs: -150, untilEndMs: 0 }), undefined);
    assert.equal(played.result.error?.code, 'BUDGET_EXHAUSTED');
  });
});

test('a run that is short of its budget makes no plan', () => {
  const asked = new Played({ tokens: 200 }, { plan: 'always' }).next({ tokens: 200 });
  assert.ok(toldThatOver(asked));
  assert.ok(!JSON.stringify(asked?.payload.messages).includes('short plan'));
});

test('of the budgets of the agent and of the request the smaller number of each holds', () => {
  assert.equal(smallerBudget(undefined, {}), undefined);
  assert.deepEqual(smallerBudget({ tokens: 5, cost: 9 }, { tokens: 7, cost: 3, wall_ms: 1 }), {
    tokens: 5,
    cost: 3,
    wall_ms: 1,
  });
});

test('what is left is what all jobs below the run have not used, and the time since its submit', () => {
  const job = { created_at: 1000, budget: { tokens: 100, tokens_used: 30, cost: 50, cost_used: 60 } };
  assert.deepEqual(leftOf({ tokens: 100, cost: 50, wall_ms: 1000 }, job, 1500), {
    tokens: 70,
    cost: -10,
    untilWrapUpMs: 350,
    untilEndMs: 500,
  });
});
