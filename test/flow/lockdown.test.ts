/**
 * LOCKDOWN in the middle of everything, on stores that last: nothing further starts, over a restart and a change of the
 * leader too, everybody is told why, people lead the way back, and the audit tells it in order.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext } from 'node:test';
import type { RunResult } from '../../src/agents/run.ts';
import { OrchdClient } from '../../src/client/client.ts';
import type { Tool } from '../../src/index.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { FAKE_SERVER, until } from '../fakes/mcp-kit.ts';
import { type AuditLine, auditLines } from './audit-lines.ts';
import { isDatabase, LASTING, onStores, placed, turns, within } from './flow-kit.ts';
import { Stage } from './stage.ts';

const WHY = 'smoke in the rack';

/** The jobs that would start next, once LOCKDOWN has come over these kinds of work. */
const HELD: Readonly<Record<string, string>> = {
  'a turn whose model answers in LOCKDOWN': 'turn-1',
  'a turn that waited for an approval, which is given in LOCKDOWN': 'waiting',
  'a turn whose call of the model is queued': 'queued.1',
  'a call of an MCP server that is queued': 'asker.2.0',
  'a run that is handed in during LOCKDOWN': 'late',
  'a sub-agent whose model answers in LOCKDOWN': 'boss.2.0',
  'a sub-agent whose model asks for a tool in LOCKDOWN': 'boss.2.1',
};
const RUNS = ['turn-1', 'turn-2', 'turn-3', 'waiting', 'queued', 'caller', 'asker', 'late', 'boss'];

/** A model outside of the brain: what it runs goes on while no brain is there. */
class Model extends Stage {
  constructor() {
    super({ name: 'model', slots: 5, types: ['inference'], models: ['m'], paid: false });
  }

  says(job: string, text: string): void {
    this.#answers(job, { text });
  }

  calls(job: string, ...tools: readonly string[]): void {
    const calls = tools.map((name, at) => {
      const input = name === 'clerk' ? { input: 'go' } : {};
      return { id: `c${at}`, type: 'function', function: { name, arguments: JSON.stringify(input) } };
    });
    this.#answers(job, { text: '', tool_calls: calls });
  }

  #answers(job: string, result: object): void {
    this.end(`${job}:1`, { ok: true, resultText: JSON.stringify(result) });
  }

  async startedJob(job: string): Promise<void> {
    await until(() => this.started.includes(`${job}:1`));
  }
}

class Site {
  readonly model = new Model();
  /** The calls of own tools, in order. */
  readonly done: string[] = [];
  readonly folder: string;
  readonly #t: TestContext;
  readonly #data: string;
  brain!: HttpBrain;
  client!: OrchdClient;

  constructor(t: TestContext, data: string) {
    this.folder = fs.mkdtempSync(join(tmpdir(), 'orchd-lockdown-'));
    t.after(() => fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 }));
    this.#t = t;
    this.#data = data;
  }

  get #config(): string {
    const command = [process.execPath, FAKE_SERVER, this.folder];
    const tools = ['look', 'mail', 'fake__hang', 'fake__echo'];
    return Object.entries({
      mcp: [{ name: 'fake', command, slots: 1, restart_min_ms: 10 }],
      agents: [
        {
          name: 'clerk',
          description: 'Does what a clerk does.',
          model: 'm',
          tools,
          approve: ['mail'],
          approval_wait_ms: 600_000,
        },
        { name: 'boss', model: 'm', tools: ['clerk'] },
      ],
      governance: { modes: [{ mode: 'RECOVERY', running: { models: 1, tools: 1 } }] },
      orchestrator: { state: { checkpoint_dir: this.folder } },
    })
      .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
      .join('');
  }

  get #tools(): readonly Tool[] {
    return ['look', 'mail'].map((name) => ({
      name,
      category: 'read',
      description: `The tool ${name}.`,
      parameters: { type: 'object' },
      effect: 'idempotent',
      run: () => {
        this.done.push(name);
        return 'done';
      },
    }));
  }

  async open(): Promise<void> {
    this.brain = await httpBrain({
      ...placed({ data: this.#data, config: this.#config }),
      backends: [this.model],
      tools: this.#tools,
      drainMs: 0,
    });
    const { brain } = this;
    this.client = new OrchdClient({ url: brain.url });
    this.#t.after(() => brain.stop());
  }

  async run(id: string, agent = 'clerk'): Promise<void> {
    const payload = { agent, input: 'go' };
    await this.brain.orchestrator.submit({ job_id: id, type: 'agent', payload });
  }

  setMode(mode: 'LOCKDOWN' | 'RECOVERY' | 'NORMAL', why: string, by: string): Promise<unknown> {
    return this.brain.orchestrator.governance.setByPerson({ mode, why }, by);
  }

  stateOf = async (id: string): Promise<string> =>
    (await this.brain.orchestrator.get(id).catch(() => undefined))?.state ?? 'none';

  /** The calls that the MCP server has begun. */
  get mcpCalls(): string[] {
    const path = join(this.folder, 'calls');
    return fs.existsSync(path) ? fs.readFileSync(path, 'utf8').trim().split('\n') : [];
  }

  /** Everything that has started so far. */
  get starts(): readonly unknown[] {
    return [[...this.model.started], [...this.done], this.mcpCalls];
  }
}

/** Three turns and two sub-agents run, one turn waits for a person, one is queued; an MCP call runs, and one is queued. */
async function underWay(site: Site): Promise<void> {
  const { model } = site;
  await site.run('waiting');
  await model.startedJob('waiting.1');
  model.calls('waiting.1', 'mail');
  await until(async () => (await site.client.approvals()).length === 1);
  await site.run('caller');
  await model.startedJob('caller.1');
  model.calls('caller.1', 'fake__hang');
  await until(() => site.mcpCalls.includes('hang'));
  await site.run('asker');
  await model.startedJob('asker.1');
  model.calls('asker.1', 'fake__echo');
  await until(async () => (await site.stateOf('asker.2.0')) === 'queued');
  await site.run('boss', 'boss');
  await model.startedJob('boss.1');
  model.calls('boss.1', 'clerk', 'clerk');
  for (const id of ['boss.2.0', 'boss.2.1']) await model.startedJob(`${id}.1`);
  for (const id of ['turn-1', 'turn-2', 'turn-3']) {
    await site.run(id);
    await model.startedJob(`${id}.1`);
  }
  await site.run('queued');
  await until(async () => (await site.stateOf('queued.1')) === 'queued');
}

/** What happens while nothing may start. */
async function inLockdown(site: Site): Promise<void> {
  site.model.calls('turn-1.1', 'look');
  site.model.says('boss.2.0.1', 'done');
  site.model.calls('boss.2.1.1', 'look');
  const [asked] = await site.client.approvals();
  await site.client.approve('waiting', { call_id: asked?.call_id as string, approve: true });
  await site.run('late');
}

/** Each of them waits, and its caller is told the mode, who has set it, and why. */
async function checkHeld(site: Site): Promise<void> {
  for (const [what, id] of Object.entries(HELD)) {
    await until(async () => (await site.stateOf(id)) === 'queued');
    const { waiting } = await site.client.get(id);
    assert.equal(waiting?.code, 'governance', what);
    assert.match(
      waiting?.text ?? '',
      /^the mode is LOCKDOWN since .*, set by "ann": smoke in the rack$/,
      what,
    );
  }
}

/** Ends what runs until all runs have ended. */
async function playOut(site: Site): Promise<void> {
  const { model, brain } = site;
  const ends = Promise.all(RUNS.map((id) => within(brain.orchestrator.wait(id))));
  let isOver = false;
  void ends.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    for (const token of model.runningTokens) model.says(token.replace(/:1$/, ''), 'done');
    await turns(5);
  }
  for (const { job_id: id, result } of await ends) {
    const { error, reply } = result as RunResult;
    assert.deepEqual([error, reply], [null, 'done'], id);
  }
}

/** Governance, and the starts of attempts that do more than ask a person, in the order of the audit. */
const story = (lines: readonly AuditLine[]): string[] =>
  lines.flatMap(({ kind, id, cause, state }) => {
    if (kind === 'governance') return [cause];
    return kind === 'attempt' && state === 'intended' && !id.startsWith('waiting.2.0:')
      ? [`start ${id}`]
      : [];
  });

describe('LOCKDOWN', () => {
  onStores(
    'lets nothing further start over restarts and changes of the leader, tells everybody why, and ends by people alone',
    LASTING,
    async (t, data) => {
      const site = new Site(t, data);
      await site.open();
      await underWay(site);
      await site.setMode('LOCKDOWN', WHY, 'ann');
      const { starts } = site;
      await inLockdown(site);
      await checkHeld(site);
      assert.deepEqual(site.starts, starts);

      await site.brain.stop();
      await site.open();
      await checkHeld(site);
      if (isDatabase(data)) {
        // Another node takes over: the first one has not been stopped, and leads no more.
        const { orchestrator } = site.brain;
        await site.open();
        await assert.rejects(orchestrator.submit({ job_id: 'never', type: 'plain' }), { code: 'FENCED' });
        await checkHeld(site);
      }
      // The MCP server of the first brain has ended in the middle of a call: a person says what became of it.
      await until(async () => (await site.stateOf('caller.2.0')) === 'stale');
      await site.brain.orchestrator.resolve('caller.2.0', { as: 'failed' }, 'bob');
      await until(async () => (await site.client.get('caller')).waiting?.code === 'governance');
      assert.deepEqual(site.starts, starts, 'nothing has started');
      await assert.rejects(site.setMode('NORMAL', 'too early', 'bob'), { code: 'ILLEGAL_STATE' });

      await site.setMode('RECOVERY', 'the fire is out', 'bob');
      await site.setMode('NORMAL', 'all is well', 'bob');
      await playOut(site);
      assert.deepEqual(site.done.sort(), ['look', 'look', 'mail']);
      assert.deepEqual(site.mcpCalls, ['hang', 'echo']);

      await site.brain.stop();
      const told = story(await auditLines(t, data));
      const [down, up, well] = ['mode:LOCKDOWN:ann', 'mode:RECOVERY:bob', 'mode:NORMAL:bob'];
      assert.deepEqual(
        told.filter((line) => line.startsWith('mode:')),
        [down, up, well],
      );
      assert.deepEqual(told.slice(told.indexOf(down), told.indexOf(up)), [down], 'no start between the two');
      assert.ok(told.slice(told.indexOf(up)).some((line) => line.startsWith('start asker.2.0')));
    },
  );

  onStores(
    'that comes while commits are under way divides the jobs in two: those that were recorded before it run, no other starts',
    LASTING,
    async (t, data) => {
      const site = new Site(t, data);
      site.model.answer = () => undefined;
      await site.open();
      const { orchestrator } = site.brain;
      const ids = Array.from({ length: 30 }, (_, at) => `j${at}`);
      const begun = ids.map((id, at) => {
        const submitted = orchestrator.submit({
          job_id: id,
          type: 'inference',
          model: 'm',
          payload: { prompt: 'x' },
        });
        return at === 2 ? [submitted, site.setMode('LOCKDOWN', WHY, 'ann')] : [submitted];
      });
      await within(Promise.all(begun.flat()));
      for (const token of site.model.runningTokens) site.model.says(token.replace(/:1$/, ''), 'done');
      await turns(50);
      const states = await Promise.all(ids.map(site.stateOf));
      assert.ok(states.includes('queued'));
      await site.brain.stop();
      const told = story(await auditLines(t, data));
      const at = told.indexOf('mode:LOCKDOWN:ann');
      assert.deepEqual(told.slice(at + 1), [], 'nothing was claimed behind it');
      const before = told.slice(0, at).map((line) => line.replace('start ', ''));
      assert.deepEqual(
        site.model.started.filter((token) => !before.includes(token)),
        [],
      );
    },
  );
});
