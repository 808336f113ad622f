/** Pausing a run in every state, over HTTP and on stores that last. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import type { Tool } from '../../src/index.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { RunView } from '../../src/model/http/runs.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: plain, model: scripted, tools: [send]}
  - {name: careful, model: scripted, tools: [send], approve: [send]}
`;

/** A door that is shut: whoever comes to it is noted, and waits until it is opened. */
class Door {
  readonly #opened = Promise.withResolvers<void>();
  readonly #come = Promise.withResolvers<void>();

  async pass(): Promise<void> {
    this.#come.resolve();
    await this.#opened.promise;
  }

  open = (): void => this.#opened.resolve();
  come = (): Promise<void> => within(this.#come.promise);
}

class Site {
  brain!: HttpBrain;
  /** The calls of the tool that have begun. */
  readonly sent: string[] = [];
  readonly toolDoor = new Door();
  readonly modelDoor = new Door();
  /** The runs whose model waits at `modelDoor`, and whose tool does at `toolDoor`, by what they were asked. */
  readonly #slowModel: string;
  readonly #slowTool: boolean;
  readonly #isPaid: boolean;

  constructor({ slowModel = '', slowTool = false, isPaid = false } = {}) {
    this.#slowModel = slowModel;
    this.#slowTool = slowTool;
    this.#isPaid = isPaid;
  }

  readonly model = new ScriptedModel(async (turn, { messages }): Promise<Said> => {
    const input = messages.find(({ role }) => role === 'user')?.content ?? '';
    if (turn === 0 && input === this.#slowModel) await this.modelDoor.pass();
    if (turn === 0) return { calls: [['c', 'send', { to: input }]] };
    const told = messages.at(-1)?.content ?? '';
    return { text: `told: ${/sent to \w+|it was sent by hand/.exec(told)?.[0]}` };
  });

  get #tool(): Tool {
    const parameters = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] };
    const run = async ({ to }: { to: string }): Promise<string> => {
      this.sent.push(to);
      if (this.#slowTool) await this.toolDoor.pass();
      return `sent to ${to}`;
    };
    return { name: 'send', description: 'Sends.', parameters, effect: 'effectful', run };
  }

  async open(t: TestContext, data: string, slots = 4): Promise<this> {
    const model = new FunctionBackend(realEnv(), this.model.backend({ slots }));
    const backends = [Object.assign(model, { info: { ...model.info, paid: this.#isPaid } })];
    const place = placed({ data, config: CONFIG });
    this.brain = await httpBrain({ ...place, backends, tools: [this.#tool], drainMs: 100 });
    const { brain } = this;
    t.after(async () => {
      await brain.stop();
      // A tool that still waits keeps the process alive until its timeout.
      for (const door of [this.toolDoor, this.modelDoor]) door.open();
    });
    return this;
  }

  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
  async call(method: string, path: string, body?: object): Promise<{ status: number; body: any }> {
    const response = await fetch(this.brain.url + path, {
      method,
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  }

  start = (run: string, agent = 'plain', options: object = {}) =>
    this.call('POST', `/v2/agents/${agent}/runs`, { run_id: run, input: run, ...options });

  /** The code of the error, or the status. */
  async order(run: string, order: string, body?: object): Promise<number | string> {
    const { status, body: answer } = await this.call('POST', `/v2/runs/${run}/${order}`, body);
    return status < 300 ? status : answer.error.code;
  }

  async view(run: string): Promise<RunView> {
    return (await this.call('GET', `/v2/runs/${run}`)).body;
  }

  /** The run, once it is as wanted. */
  async seen(run: string, isWanted: (view: RunView) => boolean): Promise<RunView> {
    const look = async (): Promise<RunView> => {
      for (;;) {
        const view = await this.view(run);
        if (isWanted(view)) return view;
      }
    };
    return within(look());
  }

  is = (run: string, state: RunView['state']) => this.seen(run, (view) => view.state === state);
  /** Once it is paused and would be in this state. */
  rests = (run: string, state: RunView['state']) => this.seen(run, ({ paused }) => paused?.state === state);

  async reply(run: string): Promise<string | undefined> {
    await within(this.brain.orchestrator.wait(run));
    const { state, reply } = await this.view(run);
    assert.equal(state, 'completed');
    return reply;
  }

  /** How often the model was asked for this run. */
  asked = (run: string): number =>
    this.model.heard.filter(({ messages }) => messages.some(({ content }) => content === run)).length;
}

/** Another run, from its start to its end: whatever could have started meanwhile would have. */
async function passTime(site: Site): Promise<void> {
  await site.start('between');
  await site.reply('between');
}

describe('[ADR-9] a run that is paused', () => {
  onStores('while it is queued does not begin', LASTING, async (t, data) => {
    const site = await new Site({ slowModel: 'first' }).open(t, data);
    await site.start('first', 'plain', { session_id: 's' });
    await site.modelDoor.come();
    await site.start('r', 'plain', { session_id: 's' });
    await site.is('r', 'queued');
    assert.equal(await site.order('r', 'pause'), 200);
    site.modelDoor.open();
    await site.reply('first');
    const { state, paused } = await site.view('r');
    assert.deepEqual([state, paused?.by, paused?.state], ['paused', 'local', 'queued']);
    assert.equal(site.asked('r'), 0);
    assert.equal(await site.order('r', 'resume'), 200);
    await site.reply('r');
    assert.ok(site.asked('r') > 0);
  });

  onStores('while its model is queued does not ask it', LASTING, async (t, data) => {
    const site = await new Site({ slowModel: 'first' }).open(t, data, 1);
    await site.start('first');
    await site.modelDoor.come();
    await site.start('r');
    await site.is('r', 'llm_queued');
    await site.order('r', 'pause');
    const { body: call } = await site.call('GET', '/v2/tasks/r.1');
    assert.equal(call.waiting.code, 'paused');
    site.modelDoor.open();
    await site.reply('first');
    assert.deepEqual([site.asked('r'), (await site.view('r')).paused?.state], [0, 'llm_queued']);
    await site.order('r', 'resume');
    assert.equal(await site.reply('r'), 'told: sent to r');
  });

  onStores('while its model answers keeps the answer, and does nothing with it', LASTING, async (t, data) => {
    const site = await new Site({ slowModel: 'r' }).open(t, data);
    await site.start('r');
    await site.modelDoor.come();
    await site.order('r', 'pause');
    const { state, waits_for: below } = await site.view('r');
    assert.deepEqual([state, below?.map((job) => job.state)], ['paused', ['running']]);
    site.modelDoor.open();
    await site.rests('r', 'queued');
    await passTime(site);
    assert.deepEqual([site.asked('r'), site.sent], [1, ['between']]);
    await site.order('r', 'resume');
    assert.equal(await site.reply('r'), 'told: sent to r');
    assert.equal(site.asked('r'), 2);
  });

  onStores('while a tool runs keeps its result, over a restart too', LASTING, async (t, data) => {
    const site = await new Site({ slowTool: true }).open(t, data);
    await site.start('r');
    await site.toolDoor.come();
    assert.equal((await site.view('r')).state, 'tool_execution');
    await site.order('r', 'pause');
    site.toolDoor.open();
    await site.rests('r', 'queued');
    await site.brain.stop();
    await site.open(t, data);
    await passTime(site);
    const { state, paused } = await site.view('r');
    assert.deepEqual([state, paused?.by, site.asked('r')], ['paused', 'local', 1]);
    await site.order('r', 'resume');
    assert.equal(await site.reply('r'), 'told: sent to r');
    assert.deepEqual(site.sent, ['r', 'between']);
  });

  onStores(
    'while a call waits to be allowed can be answered; the call is made later',
    LASTING,
    async (t, data) => {
      const site = await new Site().open(t, data);
      await site.start('r', 'careful');
      await site.is('r', 'awaiting_approval');
      await site.order('r', 'pause');
      assert.equal(await site.order('r', 'approve', { call_id: 'r.2.0', approve: true }), 200);
      await passTime(site);
      assert.deepEqual([site.sent, (await site.view('r')).state], [['between'], 'paused']);
      await site.order('r', 'resume');
      assert.equal(await site.reply('r'), 'told: sent to r');
      assert.deepEqual(site.sent, ['between', 'r']);
    },
  );

  onStores('can be cancelled', LASTING, async (t, data) => {
    const site = await new Site().open(t, data);
    await site.start('r', 'careful');
    await site.is('r', 'awaiting_approval');
    await site.order('r', 'pause');
    assert.equal(await site.order('r', 'cancel'), 202);
    const { state, paused } = await site.is('r', 'cancelled');
    assert.deepEqual([state, paused], ['cancelled', undefined]);
    assert.equal((await site.call('GET', '/v2/tasks/r.2.0')).body.state, 'cancelled');
    assert.deepEqual(
      [await site.order('r', 'pause'), await site.order('r', 'resume')],
      ['ILLEGAL_STATE', 'ILLEGAL_STATE'],
    );
  });

  onStores(
    'stays so when it is paused twice, and goes on when it is resumed twice',
    LASTING,
    async (t, data) => {
      const site = await new Site({ slowTool: true }).open(t, data);
      await site.start('r');
      await site.toolDoor.come();
      for (const order of ['pause', 'pause', 'resume', 'resume'])
        assert.equal(await site.order('r', order), 200, order);
      assert.equal((await site.view('r')).state, 'tool_execution');
      for (const id of ['none', 'r.1']) assert.equal(await site.order(id, 'pause'), 'NOT_FOUND', id);
      site.toolDoor.open();
      await site.reply('r');
    },
  );
});

describe('a call of a run whose outcome is unknown', () => {
  onStores(
    'is decided once, by the run that it belongs to; while it is paused it is not made again',
    LASTING,
    async (t, data) => {
      const site = await new Site({ slowTool: true }).open(t, data);
      await site.start('r');
      await site.toolDoor.come();
      await site.brain.stop();
      const next = await new Site().open(t, data);
      await next.is('r', 'needs_decision');
      await next.start('other');
      await next.reply('other');
      const retry = { call_id: 'r.2.0', as: 'retry' };
      assert.equal(await next.order('other', 'decide', retry), 'NOT_FOUND');
      assert.equal(await next.order('none', 'decide', retry), 'NOT_FOUND');
      for (const call_id of ['r', 'none', 'other.2.0', 'r.2.7'])
        assert.equal(await next.order('r', 'decide', { ...retry, call_id }), 'NOT_FOUND', call_id);
      assert.equal(await next.order('r', 'decide', { ...retry, result: 1 }), 'INVALID_PARAMS');
      assert.equal(await next.order('other', 'decide', { ...retry, call_id: 'other.2.0' }), 'ILLEGAL_STATE');
      await next.order('r', 'pause');
      assert.equal((await next.view('r')).paused?.state, 'needs_decision');
      const twice = await Promise.all([next.order('r', 'decide', retry), next.order('r', 'decide', retry)]);
      assert.deepEqual(twice.sort(), [200, 'ILLEGAL_STATE']);
      await passTime(next);
      assert.deepEqual(next.sent, ['other', 'between']);
      await next.order('r', 'resume');
      assert.equal(await next.reply('r'), 'told: sent to r');
      assert.equal(await next.order('r', 'decide', retry), 'ILLEGAL_STATE');
    },
  );

  onStores('is told to the model as it was decided', LASTING, async (t, data) => {
    const site = await new Site({ slowTool: true }).open(t, data);
    await site.start('r');
    await site.toolDoor.come();
    await site.brain.stop();
    const next = await new Site().open(t, data);
    await next.is('r', 'needs_decision');
    const result = { ok: true, text: 'it was sent by hand' };
    assert.equal(await next.order('r', 'decide', { call_id: 'r.2.0', as: 'succeeded', result }), 200);
    assert.equal(await next.reply('r'), 'told: it was sent by hand');
    assert.deepEqual(next.sent, []);
  });

  onStores('of a model that costs money is held until somebody decides', ['journal'], async (t, data) => {
    const site = await new Site({ slowModel: 'r', isPaid: true }).open(t, data);
    await site.start('r');
    await site.modelDoor.come();
    await site.brain.stop();
    const next = await new Site({ isPaid: true }).open(t, data);
    const { waits_for: held } = await next.is('r', 'needs_decision');
    assert.deepEqual(held, [{ job_id: 'r.1', type: 'inference', state: 'stale' }]);
    assert.equal(next.asked('r'), 0);
    assert.equal(await next.order('r', 'decide', { call_id: 'r.1', as: 'retry' }), 200);
    assert.equal(await next.reply('r'), 'told: sent to r');
  });
});
