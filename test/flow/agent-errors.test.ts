/** What a run does about errors, on stores that last: each of them ends in an answer, an approval or a clear error. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { RunResult } from '../../src/agents/run.ts';
import { OrchdClient } from '../../src/client/client.ts';
import type { Tool } from '../../src/index.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: hasty, model: scripted, timeout_ms: 1000}
  - {name: safe, model: scripted, timeout_ms: 1000, fallback: other}
  - {name: clerk, model: scripted, tools: [look, write, mail, odd]}
governance:
  rules:
    - {name: no-write, effect: deny, tools: [write], reason: "only people write"}
    - {name: ask, effect: approve, tools: [mail]}
`;

const FOREVER = new Promise<never>(() => undefined);

class Site {
  readonly done: string[] = [];
  /** While set, a step that reads the effect of the tool `odd` throws. */
  isOdd = false;
  brain!: HttpBrain;
  client!: OrchdClient;
  readonly model: ScriptedModel;

  constructor(model: ScriptedModel) {
    this.model = model;
  }

  get #tools(): readonly Tool[] {
    const isOdd = (): boolean => this.isOdd;
    const tool = (name: string): Tool => ({
      name,
      category: 'write',
      description: `The tool ${name}.`,
      parameters: { type: 'object' },
      get effect() {
        if (name === 'odd' && isOdd()) throw new TypeError('hunter2 of a defect');
        return 'effectful' as const;
      },
      run: () => {
        this.done.push(name);
        return `${name} is done`;
      },
    });
    return ['look', 'write', 'mail', 'odd'].map(tool);
  }

  async open(t: TestContext, data: string): Promise<this> {
    this.brain = await httpBrain({
      ...placed({ data, config: CONFIG }),
      backends: [this.model.backend({ models: ['scripted', 'other'] })],
      tools: this.#tools,
    });
    this.client = new OrchdClient({ url: this.brain.url });
    t.after(() => this.brain.stop());
    return this;
  }

  async run(agent: string, id = 'r'): Promise<RunResult> {
    await this.brain.orchestrator.submit({ job_id: id, type: 'agent', payload: { agent, input: 'go' } });
    return this.resultOf(id);
  }

  async resultOf(id: string): Promise<RunResult> {
    await within(this.brain.orchestrator.wait(id));
    return (await (await fetch(`${this.brain.url}/v2/runs/${id}`)).json()) as RunResult;
  }

  /** What the model was told of its calls by the end of the run. */
  get told(): string[] {
    const { messages = [] } = this.model.heard.at(-1) ?? {};
    return messages.filter(({ role }) => role === 'tool').map(({ content }) => unmarked(content));
  }
}

/** Each call of a model, with how it ended. */
const callsOf = ({ steps }: RunResult): string[] =>
  steps.flatMap(({ event, model, error }) => (event === 'llm_call' ? [`${model} ${error ?? 'ok'}`] : []));

/** The four parts that every result has. */
function checkForm(result: RunResult): void {
  const { reply, steps, trace_id, error } = result;
  assert.deepEqual([typeof reply, reply.length > 0, Array.isArray(steps)], ['string', true, true]);
  assert.match(trace_id, /^[0-9a-f]{32}$/);
  assert.notEqual(error, undefined);
}

describe('a model that does not answer in time', () => {
  onStores('[ADR-6] is asked once more, and its answer counts', LASTING, async (t, data) => {
    const model: ScriptedModel = new ScriptedModel(() =>
      model.heard.length === 1 ? FOREVER : { text: 'there' },
    );
    const site = await new Site(model).open(t, data);
    const result = await site.run('hasty');
    checkForm(result);
    assert.deepEqual([result.reply, result.error], ['there', null]);
    assert.deepEqual(callsOf(result), ['scripted WORKER_TIMEOUT', 'scripted ok']);
  });

  onStores(
    '[ADR-6] twice is replaced by the fallback; without one the run ends with a reply and the error',
    LASTING,
    async (t, data) => {
      const isOfFallback = (model: string | undefined): boolean => model === 'other';
      const site = await new Site(
        new ScriptedModel((_turn, _heard, { model }) =>
          isOfFallback(model) ? { text: 'instead' } : FOREVER,
        ),
      ).open(t, data);
      const saved = await site.run('safe');
      assert.deepEqual([saved.reply, saved.error], ['instead', null]);
      const twice = ['scripted WORKER_TIMEOUT', 'scripted WORKER_TIMEOUT'];
      assert.deepEqual(callsOf(saved), [...twice, 'other ok']);
      const lost = await site.run('hasty', 'lost');
      checkForm(lost);
      assert.match(lost.reply, /could not be answered/);
      assert.deepEqual([lost.error?.code, callsOf(lost)], ['WORKER_TIMEOUT', twice]);
    },
  );
});

describe('a call that the rules of governance forbid', () => {
  onStores(
    '[ADR-6] is told to the model with the reason, which goes on by another way',
    LASTING,
    async (t, data) => {
      const plan = ['write', 'look'];
      const site = await new Site(
        new ScriptedModel((turn) =>
          plan[turn] ? { calls: [[`c${turn}`, plan[turn], {}]] } : { text: 'looked instead' },
        ),
      ).open(t, data);
      const result = await site.run('clerk');
      checkForm(result);
      assert.deepEqual([result.reply, result.error], ['looked instead', null]);
      assert.match(site.told[0] ?? '', /not allowed: the rule "no-write" forbids it: only people write/);
      assert.deepEqual([site.told[1], site.done], ['look is done', ['look']]);
      assert.ok(result.steps.some(({ tool, error }) => tool === 'write' && error === 'GOVERNANCE_DENIED'));
    },
  );

  onStores(
    '[ADR-6] is asked of a person where the rule says so, made once it is allowed, and told where it is not',
    LASTING,
    async (t, data) => {
      const site = await new Site(
        new ScriptedModel((turn) =>
          turn < 2 ? { calls: [[`c${turn}`, 'mail', { turn }]] } : { text: 'ok' },
        ),
      ).open(t, data);
      const running = site.run('clerk');
      for (const approve of [true, false]) {
        let waiting: { call_id: string }[] = [];
        while (waiting.length === 0) waiting = [...(await site.client.approvals())];
        assert.deepEqual(site.done, approve ? [] : ['mail']);
        const call_id = waiting[0]?.call_id as string;
        await site.client.approve('r', { call_id, approve, ...(!approve && { why: 'one is enough' }) });
      }
      const { reply, error } = await within(running);
      assert.deepEqual([reply, error, site.done], ['ok', null, ['mail']]);
      assert.equal(site.told[0], 'mail is done');
      assert.match(site.told[1] ?? '', /denied: one is enough/);
    },
  );
});

describe('a session that there is not', () => {
  onStores('[ADR-6] is a clear error that names it, and begins nothing', LASTING, async (t, data) => {
    const site = await new Site(new ScriptedModel(() => ({ text: 'hello' }))).open(t, data);
    const { url, orchestrator } = site.brain;
    const ask = async (method: string, path: string, body?: object) => {
      const response = await fetch(url + path, {
        method,
        headers: { 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      });
      return [
        response.status,
        (await response.json()) as { error?: { code: string; message: string } },
      ] as const;
    };
    for (const [method, path, body] of [
      ['GET', '/v2/sessions/none'],
      ['GET', '/v2/sessions/none/messages'],
      ['GET', '/v2/sessions/none/export'],
      ['PUT', '/v2/sessions/none/metadata', { mode: 'x' }],
      ['POST', '/v2/sessions/none/fork', { session_id: 'copy' }],
      ['DELETE', '/v2/sessions/none'],
    ] as const) {
      const [status, { error }] = await ask(method, path, body);
      assert.deepEqual([status, error?.code], [404, 'NOT_FOUND'], path);
      assert.match(error?.message ?? '', /there is no session "none"/, path);
    }
    const wrong = { input: 'go', session_id: '' };
    const [status, { error }] = await ask('POST', '/v2/agents/hasty/runs', wrong);
    assert.deepEqual([status, error?.code], [400, 'INVALID_PARAMS']);
    assert.match(error?.message ?? '', /session_id/);
    assert.deepEqual((await orchestrator.list({ limit: 10 })).jobs, []);
    assert.equal((await ask('GET', '/v2/sessions/copy'))[0], 404);
  });
});

describe('an exception that nobody foresaw', () => {
  onStores(
    '[ADR-6] ends its run with a reply that tells no secret, is logged, counted and an alert, and ends nothing else',
    LASTING,
    async (t, data) => {
      const site: Site = await new Site(
        new ScriptedModel((turn, { messages }) => {
          const isOther = messages.length === 1 && messages[0]?.content === 'hello';
          if (isOther) return { text: 'hello' };
          site.isOdd = turn === 1;
          return { calls: [[`c${turn}`, turn === 0 ? 'look' : 'odd', {}]] };
        }),
      ).open(t, data);
      const result = await site.run('clerk');
      const { brain } = site;
      checkForm(result);
      assert.deepEqual(
        [result.error, result.steps.map(({ event }) => event)],
        [{ code: 'INTERNAL', message: 'a step of the run has failed' }, ['llm_call', 'tool_call']],
      );
      assert.match(result.reply, /could not be answered/);
      const lines = brain.logged.map((line) => JSON.parse(line) as Record<string, unknown>);
      const logged = lines.find(({ message }) => message === 'a step of a run has failed');
      assert.partialDeepStrictEqual(logged, { level: 'error', job_id: 'r', trace_id: result.trace_id });
      assert.match(String(logged?.['reason']), /TypeError at /);
      assert.equal(lines.filter(({ message }) => message === 'agent_defect').length, 1);
      assert.match(await (await fetch(`${brain.url}/metrics`)).text(), /orchd_agent_defects_total 1/);
      assert.ok(![JSON.stringify(result), ...brain.logged].some((text) => text.includes('hunter2')));
      site.isOdd = false;
      const next = await brain.orchestrator.submit({
        model: 'scripted',
        messages: [{ role: 'user', content: 'hello' }],
      });
      assert.equal((await within(brain.orchestrator.wait(next.job_id))).state, 'succeeded');
    },
  );
});
