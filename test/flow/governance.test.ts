/** Governance as callers, agents and operators see it, on stores that last: over HTTP, restarts and changes of the mode. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import type { Tool } from '../../src/index.ts';
import { type HttpBrain, httpBrain, refusalsOf } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: clerk, model: scripted, tools: [look, write, erase, mail], approval_wait_ms: 600000}
  - {name: reader, model: scripted, tools: [look, write], categories: [read]}
governance:
  rules:
    - {name: no-write, effect: deny, tools: [write], agents: [clerk], modes: [NORMAL], reason: "only people write"}
    - {name: no-erase, effect: deny, tools: [erase], critical: true}
    - {name: ask, effect: approve, tools: [mail]}
`;

class Site {
  readonly done: string[] = [];
  brain!: HttpBrain;
  client!: OrchdClient;
  readonly model: ScriptedModel;

  /** The model asks for these tools in one answer, and says what it was told in the next. */
  constructor(...tools: string[]) {
    const calls = tools.map((name, at) => [`c${at}`, name, {}] as const);
    this.model = new ScriptedModel((turn) => (turn === 0 && calls.length > 0 ? { calls } : { text: 'done' }));
  }

  get #tools(): readonly Tool[] {
    const tool = (name: string, category: string): Tool => ({
      name,
      category,
      description: `The tool ${name}.`,
      parameters: { type: 'object' },
      effect: 'effectful',
      run: () => {
        this.done.push(name);
        return `${name} is done`;
      },
    });
    return [tool('look', 'read'), tool('write', 'write'), tool('erase', 'write'), tool('mail', 'network')];
  }

  async open(t: TestContext, data: string, config = CONFIG): Promise<void> {
    this.brain = await httpBrain({
      ...placed({ data, config }),
      backends: [this.model.backend(), { name: 'plain', slots: 4, types: { plain: () => 'ran' } }],
      tools: this.#tools,
    });
    this.client = new OrchdClient({ url: this.brain.url });
    t.after(() => this.brain.stop());
  }

  async again(t: TestContext, data: string): Promise<void> {
    await this.brain.stop();
    await this.open(t, data);
  }

  async start(run: string, agent = 'clerk'): Promise<void> {
    await this.brain.orchestrator.submit({ job_id: run, type: 'agent', payload: { agent, input: 'go' } });
  }

  /** What the model was told of its calls by the end of a run. */
  async told(run: string): Promise<string[]> {
    await within(this.brain.orchestrator.wait(run));
    const { messages = [] } = this.model.heard.at(-1) ?? {};
    return messages.filter(({ role }) => role === 'tool').map(({ content }) => unmarked(content));
  }
}

/** The changes of the mode, and broken rules, in the order of the audit. */
async function audited(site: Site): Promise<string[]> {
  const { last_violations, mode, by } = await site.client.governance();
  return [...last_violations.map(({ rule }) => rule), `${mode} by ${by}`];
}

describe('governance', () => {
  onStores(
    '[ADR-7] a denied call goes back to the model with the reason, and it goes on',
    LASTING,
    async (t, data) => {
      const site = new Site('write', 'look');
      await site.open(t, data);
      await site.start('r');
      const told = await site.told('r');
      assert.match(
        told.find((text) => /not allowed/.test(text)) ?? '',
        /"no-write" forbids it: only people write/,
      );
      assert.ok(told.includes('look is done'));
      assert.deepEqual(site.done, ['look']);
      assert.deepEqual(await audited(site), ['rule:no-write', 'NORMAL by start']);
    },
  );

  onStores(
    '[ADR-7] a call that a rule wants approved becomes an approval request',
    LASTING,
    async (t, data) => {
      const site = new Site('mail');
      await site.open(t, data);
      await site.start('r');
      let waiting: { call_id: string }[] = [];
      while (waiting.length === 0) waiting = [...(await site.client.approvals())];
      assert.deepEqual(site.done, []);
      await site.client.approve('r', { call_id: waiting[0]!.call_id, approve: true });
      assert.deepEqual(await site.told('r'), ['mail is done']);
      assert.deepEqual(site.done, ['mail']);
    },
  );

  onStores(
    '[ADR-7] an approval is of no use in a mode that no longer allows the call',
    LASTING,
    async (t, data) => {
      const site = new Site('mail');
      await site.open(t, data);
      await site.start('r');
      let waiting: { call_id: string }[] = [];
      while (waiting.length === 0) waiting = [...(await site.client.approvals())];
      await site.client.setMode({ mode: 'DEGRADED', why: 'a test' });
      await site.client.approve('r', { call_id: waiting[0]!.call_id, approve: true });
      assert.match((await site.told('r'))[0] ?? '', /not allowed: in the mode DEGRADED/);
      assert.deepEqual(site.done, []);
    },
  );

  onStores(
    '[ADR-7] a critical violation locks down, and aborts the run that made it alone',
    LASTING,
    async (t, data) => {
      const site = new Site('erase');
      await site.open(t, data);
      await site.start('r');
      const { state } = await within(site.brain.orchestrator.wait('r'));
      assert.equal(state, 'cancelled');
      assert.deepEqual(site.done, []);
      assert.deepEqual(await audited(site), ['rule:no-erase', 'LOCKDOWN by rule:no-erase']);
      await site.client.submit({ job_id: 'p', type: 'plain', payload: {} });
      const { waiting: wait } = await site.client.get('p');
      assert.equal(wait?.code, 'governance');
      assert.match(wait?.text ?? '', /LOCKDOWN since .*"rule:no-erase": the rule "no-erase" forbids it/);
    },
  );

  onStores(
    '[ADR-7] LOCKDOWN holds over a restart, tells everybody why, and the way back works',
    LASTING,
    async (t, data) => {
      const site = new Site('look');
      await site.open(t, data);
      await site.client.setMode({ mode: 'LOCKDOWN', why: 'smoke in the rack' });
      await site.start('r');
      await site.client.submit({ job_id: 'p', type: 'plain', payload: {} });
      await site.again(t, data);
      const { mode, by, why } = await site.client.governance();
      assert.deepEqual([mode, why], ['LOCKDOWN', 'smoke in the rack']);
      assert.ok(by.length > 0);
      for (const id of ['r', 'p']) {
        const job = await site.client.get(id);
        assert.deepEqual([job.state, job.waiting?.code], ['queued', 'governance'], id);
        assert.match(job.waiting?.text ?? '', /smoke in the rack/);
      }
      await assert.rejects(site.client.setMode({ mode: 'NORMAL', why: 'too early' }), {
        code: 'ILLEGAL_STATE',
      });
      const told = refusalsOf(site.brain).map(({ error_code, route }) => [error_code, route]);
      assert.deepEqual(told, [['ILLEGAL_STATE', 'PUT /v2/governance/mode']]);
      await site.client.setMode({ mode: 'RECOVERY', why: 'the fire is out' });
      await site.client.setMode({ mode: 'NORMAL', why: 'all is well' });
      assert.deepEqual(await site.told('r'), ['look is done']);
      assert.equal((await within(site.brain.orchestrator.wait('p'))).state, 'succeeded');
    },
  );

  onStores(
    '[ADR-7] a mode bounds the answer of a call that names no bound, and of one that asks for more',
    LASTING,
    async (t, data) => {
      const site = new Site();
      await site.open(t, data, `${CONFIG}  modes: [{mode: ALERT, max_tokens: 50}]\n`);
      await site.client.setMode({ mode: 'ALERT', why: 'a test' });
      await site.start('r');
      await within(site.brain.orchestrator.wait('r'));
      const messages = [{ role: 'user', content: 'x' }];
      const asked = { model: 'scripted', messages, max_tokens: 51 } as const;
      const { job_id: id } = await site.brain.orchestrator.submit(asked);
      await within(site.brain.orchestrator.wait(id));
      assert.deepEqual(
        site.model.heard.map(({ max_tokens }) => max_tokens),
        [50, 50],
      );
    },
  );

  onStores('[ADR-7] an agent calls no tools beyond its rights', LASTING, async (t, data) => {
    const site = new Site('write', 'look');
    await site.open(t, data);
    await site.start('r', 'reader');
    const told = await site.told('r');
    assert.match(told.join('\n'), /agent "reader" may call no tools of the category "write"/);
    assert.deepEqual(site.done, ['look']);
  });
});
