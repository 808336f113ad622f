/** Budgets of runs, over HTTP: what all jobs below a run use counts, and the run ends with an answer. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { Tool } from '../../src/index.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { RunView } from '../../src/model/http/runs.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: looker, model: scripted, tools: [look], max_tokens: 100, max_steps: 100, budget: {tokens: 1500}}
  - {name: spender, model: scripted, tools: [look], max_tokens: 100, max_steps: 100}
  - {name: asker, model: scripted, tools: [ask], max_tokens: 50, budget: {tokens: 3000}}
  - {name: payer, model: scripted, tools: [look], max_tokens: 100, max_steps: 100, budget: {cost: 230}}
  - {name: waiter, model: scripted, tools: [hang], max_tokens: 50, budget: {wall_ms: 15000}}
prices:
  - {model: scripted, output: 1000000}
limits:
  - {scope: "agent:default/spender", token_budget: 1000}
`;

/** Whether the model was told that this is its last answer. */
const isLast = (messages: readonly { readonly content: string }[]): boolean =>
  messages.some(({ content }) => content.includes('budget of this task is used up'));

class Site {
  brain!: HttpBrain;
  /** What became of the jobs that the tool `ask` has submitted below its own job. */
  readonly asked: string[] = [];
  /** Aborted after the test: a tool that still hangs keeps the process alive until its timeout. */
  readonly #isOver = new AbortController();
  readonly #release = Promise.withResolvers<void>();
  /** The model asks for the tool again and again, until it is told that it must answer. */
  readonly model: ScriptedModel;

  constructor(tool: string, parallel = 1) {
    this.model = new ScriptedModel((turn, { messages }) => {
      if (isLast(messages)) return { text: 'as far as I know' };
      const calls = Array.from(
        { length: parallel },
        (_, at) => [`c${at}`, tool, { n: turn * 10 + at }] as const,
      );
      return { calls };
    });
  }

  get #tools(): readonly Tool[] {
    const tool = {
      description: 'A tool.',
      parameters: { type: 'object', properties: { n: { type: 'integer' } } },
      effect: 'pure',
    } as const;
    return [
      { ...tool, name: 'look', run: () => 'seen' },
      { ...tool, name: 'ask', run: (_, { jobId }) => this.#ask(jobId) },
      {
        ...tool,
        name: 'hang',
        run: (_, { signal }) =>
          new Promise((_, reject) => {
            for (const end of [signal, this.#isOver.signal]) end.addEventListener('abort', reject);
          }),
      },
    ];
  }

  /** Submits a call of a model below the call of the tool; all of them are open at once. */
  async #ask(parent: string): Promise<string> {
    const payload = { messages: [{ role: 'user', content: 'x' }], max_tokens: 1000 };
    const job = { type: 'inference', model: 'heavy', parent_id: parent, payload };
    const done = await this.brain.orchestrator.submit(job).then(
      () => 'admitted',
      (error: unknown) => (error instanceof OrchdError ? String(error.details.reason) : 'thrown'),
    );
    this.asked.push(done);
    if (this.asked.length === 4) this.#release.resolve();
    await this.#release.promise;
    return done;
  }

  async open(t: TestContext, data: string): Promise<this> {
    const heavy = {
      name: 'heavy',
      slots: 4,
      models: ['heavy'],
      types: { inference: () => ({ text: 'x', usage: { prompt_tokens: 1, completion_tokens: 900 } }) },
    };
    this.brain = await httpBrain({
      ...placed({ data, config: CONFIG }),
      backends: [this.model.backend(), heavy],
      tools: this.#tools,
      drainMs: 100,
    });
    const { brain } = this;
    t.after(async () => {
      await brain.stop();
      this.#isOver.abort();
    });
    return this;
  }

  async start(run: string, agent: string, options: object = {}): Promise<number> {
    const response = await fetch(`${this.brain.url}/v2/agents/${agent}/runs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ run_id: run, input: 'go on', ...options }),
    });
    return response.status;
  }

  async view(run: string): Promise<RunView> {
    return (await (await fetch(`${this.brain.url}/v2/runs/${run}`)).json()) as RunView;
  }

  async ended(run: string): Promise<RunView> {
    await within(this.brain.orchestrator.wait(run));
    return this.view(run);
  }
}

const used = ({ steps = [] }: RunView): number =>
  steps.reduce((sum, { tokens_used: tokens = 0 }) => sum + tokens, 0);

describe('a run with a budget', () => {
  onStores('of tokens ends with an answer inside of it', LASTING, async (t, data) => {
    const site = await new Site('look').open(t, data);
    await site.start('r', 'looker');
    const run = await site.ended('r');
    assert.deepEqual([run.state, run.reply, run.error], ['completed', 'as far as I know', null]);
    const { tools, messages } = site.model.heard.at(-1) ?? { messages: [] };
    assert.deepEqual([tools, isLast(messages)], [undefined, true]);
    assert.ok(site.model.heard.length > 3, 'it has worked before');
    assert.ok(used(run) <= 1500);
    await site.start('s', 'looker', { budget: { tokens: 300 } });
    assert.ok(used(await site.ended('s')) < used(run), 'the smaller budget holds');
  });

  onStores('ends with an error where not even an answer fits', LASTING, async (t, data) => {
    const site = await new Site('look').open(t, data);
    await site.start('r', 'looker', { budget: { tokens: 10 } });
    const { state, error, reply, steps, trace_id } = await site.ended('r');
    assert.deepEqual([state, error?.code, steps], ['failed', 'BUDGET_EXHAUSTED', []]);
    assert.match(trace_id ?? '', /^[0-9a-f]{32}$/);
    assert.match(reply ?? '', /tokens of the run are used up/);
    assert.equal(site.model.heard.length, 0);
  });

  onStores('counts what its tools submit below it, side by side', LASTING, async (t, data) => {
    const site = await new Site('ask', 4).open(t, data);
    await site.start('r', 'asker');
    const run = await site.ended('r');
    assert.deepEqual(site.asked.slice(0, 4).sort(), ['admitted', 'admitted', 'token_budget', 'token_budget']);
    assert.deepEqual([run.state, run.reply], ['completed', 'as far as I know']);
    const { jobs } = await site.brain.orchestrator.list({ type: 'inference', limit: 100 });
    assert.deepEqual(
      jobs.filter(({ model }) => model === 'heavy').map(({ state }) => state),
      ['succeeded', 'succeeded'],
    );
  });

  onStores(
    'of money holds back what a call may cost, and answers with what is left',
    LASTING,
    async (t, data) => {
      const site = await new Site('look').open(t, data);
      await site.start('r', 'payer');
      const run = await site.ended('r');
      assert.deepEqual([run.state, run.reply], ['completed', 'as far as I know']);
      // A call holds back 100, and nobody says that it costs less: the third does not fit, and is made shorter, as the last one.
      assert.deepEqual(
        run.steps?.filter(({ event }) => event === 'llm_call').map(({ error }) => error),
        [undefined, undefined, 'ADMISSION_REJECT', undefined],
      );
      assert.equal(site.model.heard.length, 3);
    },
  );

  onStores('shows what is used of it, also after a restart', LASTING, async (t, data) => {
    const site = new Site('hang');
    const looked = async (): Promise<RunView> => {
      for (;;) {
        const run = await site.view('r');
        if (run.state === 'tool_execution' && run.waits_for?.some(({ state }) => state === 'running'))
          return run;
      }
    };
    await site.open(t, data);
    await site.start('r', 'waiter', { budget: { tokens: 5000 } });
    const before = await within(looked());
    const { tokens, tokens_used: spent = 0 } = before.budget ?? {};
    assert.ok(tokens === 5000 && spent > 50, JSON.stringify(before.budget));
    await fetch(`${site.brain.url}/v2/runs/r/pause`, { method: 'POST' });
    await site.brain.stop();
    await site.open(t, data);
    assert.deepEqual((await site.view('r')).budget, before.budget);
    await fetch(`${site.brain.url}/v2/runs/r/cancel`, { method: 'POST' });
    assert.equal((await site.ended('r')).state, 'cancelled');
  });

  onStores('of time gives up a tool that hangs, and answers before its end', ['memory'], async (t, data) => {
    const site = await new Site('hang').open(t, data);
    await site.start('r', 'waiter');
    const run = await site.ended('r');
    assert.deepEqual([run.state, run.reply], ['completed', 'as far as I know']);
    assert.ok(run.steps?.find(({ event }) => event === 'tool_call')?.error);
    assert.ok((run.ended_at ?? 0) - run.created_at < 15_000);
  });
});

onStores(
  'the limit of an agent counts all its runs, with every job below them, whoever starts them',
  LASTING,
  async (t, data) => {
    const site = await new Site('look').open(t, data);
    const runs: RunView[] = [];
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) {
      await site.start(id, 'spender');
      runs.push(await site.ended(id));
      if (runs.at(-1)?.state === 'failed') break;
    }
    assert.equal(runs.at(-1)?.error?.code, 'BUDGET_EXHAUSTED');
    assert.ok((runs[0]?.steps?.length ?? 0) > 1);
    assert.ok(runs.reduce((sum, run) => sum + used(run), 0) <= 1000);
    const jobs = await Promise.all(['a', 'a.1', 'a.2.0'].map((id) => site.brain.orchestrator.get(id)));
    assert.deepEqual(new Set(jobs.map(({ agent }) => agent)), new Set(['spender']));
  },
);
