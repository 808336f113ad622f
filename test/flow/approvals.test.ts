/** Calls of tools that a person must allow, over HTTP and on stores that last. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { allApprovals } from '../../src/client/approvals.ts';
import { OrchdClient } from '../../src/client/client.ts';
import type { Tool } from '../../src/index.ts';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import { type HttpBrain, httpBrain, refusalsOf } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { LASTING, onStores, placed, within } from './flow-kit.ts';

const config = (waitMs = 600_000): string => `
agents:
  - {name: clerk, model: scripted, tools: [pay, look], approve: [pay], approval_wait_ms: ${waitMs}}
`;

interface Waiting {
  readonly call_id: string;
  readonly run_id: string;
  readonly args: { readonly to: string };
  readonly hash: string;
}

class Site {
  readonly paid: string[] = [];
  brain!: HttpBrain;
  readonly model: ScriptedModel;

  /** The model asks for a payment to each, all in one answer. */
  constructor(...to: string[]) {
    const calls = to.map((name, at) => [`c${at}`, 'pay', { to: name }] as const);
    this.model = new ScriptedModel((turn) => (turn === 0 ? { calls } : { text: 'done' }));
  }

  get #tools(): readonly Tool[] {
    const parameters = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] };
    const pay = ({ to }: { to: string }): string => {
      this.paid.push(to);
      return `paid ${to}`;
    };
    const tool = { description: 'A tool.', effect: 'effectful' } as const;
    return [
      { ...tool, name: 'pay', parameters, run: pay },
      { ...tool, name: 'look', parameters: { type: 'object' }, run: () => 'seen' },
    ];
  }

  async open(t: TestContext, data: string, text = config(), model = this.model): Promise<void> {
    const brain = await httpBrain({
      ...placed({ data, config: text }),
      backends: [model.backend()],
      tools: this.#tools,
    });
    t.after(() => brain.stop());
    this.brain = brain;
  }

  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
  async call(method: string, path: string, body?: object): Promise<{ status: number; body: any }> {
    const response = await fetch(this.brain.url + path, {
      method,
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  }

  start = (run: string) => this.call('POST', '/v2/agents/clerk/runs', { run_id: run, input: 'pay them' });

  /** The calls that wait, once there are so many. */
  async waiting(count: number): Promise<readonly Waiting[]> {
    for (;;) {
      const { approvals } = (await this.call('GET', '/v2/approvals')).body as { approvals: Waiting[] };
      if (approvals.length === count) return approvals;
    }
  }

  /** The only call that waits. */
  async only(): Promise<Waiting> {
    return (await this.waiting(1))[0] as Waiting;
  }

  async answer(run: string, body: object): Promise<number | string> {
    const { status, body: answered } = await this.call('POST', `/v2/runs/${run}/approve`, body);
    return status === 200 ? 200 : answered.error.code;
  }

  /** What the model was told of its calls. */
  async told(run: string): Promise<string[]> {
    await within(this.brain.orchestrator.wait(run));
    const { messages = [] } = this.model.heard.at(-1) ?? {};
    return messages.filter(({ role }) => role === 'tool').map(({ content }) => unmarked(content));
  }
}

describe('a call that a person must allow', () => {
  onStores('two are answered in reverse order, each by its own answer', LASTING, async (t, data) => {
    const site = new Site('ann', 'bob');
    await site.open(t, data);
    await site.start('r');
    const waiting = await site.waiting(2);
    const to = (name: string) => waiting.find(({ args }) => args.to === name) as Waiting;
    assert.equal((await site.call('GET', '/v2/runs/r')).body.state, 'awaiting_approval');
    const [ann, bob] = [to('ann'), to('bob')];
    const deny = { call_id: bob.call_id, approve: false, why: 'not him' };
    assert.equal(await site.answer('r', deny), 200);
    assert.deepEqual(site.paid, []);
    assert.equal(await site.answer('r', { call_id: ann.call_id, approve: true, hash: ann.hash }), 200);
    assert.deepEqual(await site.told('r'), ['error: the call was denied: not him', 'paid ann']);
    assert.deepEqual(site.paid, ['ann']);
    const { result } = await site.brain.orchestrator.get(bob.call_id);
    assert.deepEqual(result, { approved: false, by: 'local', why: 'not him' });
  });

  onStores(
    'is answered once, not for another call or run, and not with another hash',
    LASTING,
    async (t, data) => {
      const site = new Site('ann');
      await site.open(t, data);
      await site.start('r');
      await site.start('s');
      const waiting = await site.waiting(2);
      const [own, other] = ['r', 's'].map((run) => waiting.find(({ run_id }) => run_id === run));
      const yes = { call_id: own?.call_id, approve: true };
      assert.equal(await site.answer('s', yes), 'NOT_FOUND');
      assert.equal(await site.answer('r', { ...yes, call_id: 'none' }), 'NOT_FOUND');
      assert.equal(await site.answer('r', { ...yes, call_id: 'r' }), 'NOT_FOUND');
      assert.equal(await site.answer('r', { ...yes, hash: 'f'.repeat(64) }), 'ILLEGAL_STATE');
      assert.deepEqual(site.paid, []);
      const twice = await Promise.all([site.answer('r', yes), site.answer('r', yes)]);
      assert.deepEqual(twice.sort(), [200, 'ILLEGAL_STATE']);
      await site.told('r');
      assert.equal(await site.answer('r', yes), 'ILLEGAL_STATE');
      assert.deepEqual(site.paid, ['ann']);
      // Two that come so close together that both have seen the call wait.
      const { orders } = site.brain.orchestrator;
      const answers = [true, false].map((approve) =>
        orders.answer(other?.call_id as string, 1, { approve, by: 'me' }, DEFAULT_TENANT),
      );
      const [first, second] = await Promise.allSettled(answers);
      assert.equal(first?.status, 'fulfilled');
      assert.equal(second?.status === 'rejected' && second.reason.code, 'ILLEGAL_STATE');
      assert.deepEqual(await site.told('s'), ['paid ann']);
    },
  );

  onStores(
    'that nobody answers in time is denied; a late answer changes nothing',
    LASTING,
    async (t, data) => {
      const site = new Site('ann');
      await site.open(t, data, config(1000));
      await site.start('r');
      assert.deepEqual(await site.told('r'), ['error: the call was denied: nobody answered in time']);
      const { type } = await site.brain.orchestrator.get('r.2.0');
      assert.equal(type, 'approval');
      assert.equal(await site.answer('r', { call_id: 'r.2.0', approve: true }), 'ILLEGAL_STATE');
      assert.deepEqual(site.paid, []);
      assert.deepEqual(
        refusalsOf(site.brain).map(({ route, error_code }) => [route, error_code]),
        [['POST /v2/runs/:id/approve', 'ILLEGAL_STATE']],
      );
    },
  );

  onStores('is listed on one of several pages, which the command line follows', LASTING, async (t, data) => {
    const site = new Site('ann');
    await site.open(t, data);
    const runs = Array.from({ length: 5 }, (_, n) => `r${n}`);
    for (const run of runs) await site.start(run);
    await site.waiting(5);
    const seen: string[] = [];
    let cursor = '';
    do {
      const { body } = await site.call('GET', `/v2/approvals?limit=2${cursor && `&cursor=${cursor}`}`);
      assert.ok(body.approvals.length <= 2);
      seen.push(...body.approvals.map(({ run_id }: Waiting) => run_id));
      cursor = body.cursor ?? '';
    } while (cursor !== '');
    assert.deepEqual([...seen].sort(), runs);
    for (const bad of ['limit=0', 'limit=201', 'limit=x', 'cursor=x', 'before=1'])
      assert.equal((await site.call('GET', `/v2/approvals?${bad}`)).status, 400, bad);
    const client = new OrchdClient({ url: site.brain.url });
    const pages: (string | undefined)[] = [];
    const listed = await allApprovals((query) => {
      pages.push(query.cursor);
      return client.approvalPage({ ...query, limit: 2 });
    });
    assert.deepEqual([listed.map(({ run_id }) => run_id), pages.length], [seen, 3]);
  });

  onStores('must be allowed in a run that began before that was asked for', LASTING, async (t, data) => {
    const asked = Promise.withResolvers<void>();
    const said = Promise.withResolvers<void>();
    const site = new Site('ann');
    const first = new ScriptedModel(async () => {
      asked.resolve();
      await said.promise;
      return { calls: [['c0', 'pay', { to: 'ann' }]] };
    });
    await site.open(t, data, config().replace('approve: [pay], ', ''), first);
    await site.start('r');
    await within(asked.promise);
    const stopped = site.brain.stop();
    said.resolve();
    await within(stopped);
    await site.open(t, data);
    const { call_id } = await site.only();
    assert.deepEqual(site.paid, []);
    assert.equal(await site.answer('r', { call_id, approve: true }), 200);
    await within(site.brain.orchestrator.wait('r'));
    assert.deepEqual(site.paid, ['ann']);
  });

  onStores('waits over a restart', LASTING, async (t, data) => {
    const site = new Site('ann');
    await site.open(t, data);
    await site.start('r');
    const { call_id } = await site.only();
    await site.brain.stop();
    await site.open(t, data);
    assert.equal(await site.answer('r', { call_id, approve: true }), 200);
    assert.deepEqual(await site.told('r'), ['paid ann']);
    assert.deepEqual(site.paid, ['ann']);
  });
});
