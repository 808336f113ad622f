/** The types of jobs that belong to the runs of agents: nobody else makes such jobs, and nobody else runs them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Backend, BackendListener, BackendSource } from '../../src/core/ports/backend.ts';
import { createOrchestrator } from '../../src/index.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { LASTING, onStores, start, within } from './flow-kit.ts';

const OWN = ['agent', 'tool', 'approval', 'report'] as const;

describe('jobs of the types of runs', () => {
  test('are made by runs alone, and an agent is asked with a request that it understands', async (t) => {
    const model = new ScriptedModel(() => ({ text: 'done' }));
    const config = 'agents: [{name: a, model: scripted}]';
    const brain = await httpBrain({ config, backends: [model.backend()] });
    t.after(() => brain.stop());
    const submit = async (body: object) => {
      const response = await fetch(`${brain.url}/v2/tasks`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return { status: response.status, body: (await response.json()) as { error: { code: string } } };
    };
    for (const type of ['tool', 'approval', 'report']) {
      const { status, body } = await submit({
        type,
        payload: { agent: 'a', tool: 'x', args: {}, approved: true },
      });
      assert.deepEqual([status, body.error.code], [400, 'INVALID_PARAMS'], type);
    }
    const strange = [
      null,
      1,
      'a',
      [],
      {},
      { agent: 1 },
      { agent: 'a' },
      { agent: 'a', input: 'x', approve: [] },
    ];
    for (const [at, payload] of strange.entries()) {
      const job_id = `s${at}`;
      await submit({ job_id, type: 'agent', payload });
      const { state, error } = await within(brain.orchestrator.wait(job_id));
      assert.deepEqual([state, error?.code], ['dead', 'INVALID_PARAMS'], JSON.stringify(payload));
    }
    assert.equal(model.heard.length, 0);
  });

  test('[ADR-7] are made by no caller, wherever it asks: nobody forges a call, or says that one was allowed', async (t) => {
    const config = 'agents: [{name: a, model: scripted}]';
    const brain = await httpBrain({
      config,
      backends: [new ScriptedModel(() => ({ text: 'done' })).backend()],
    });
    t.after(() => brain.stop());
    const ask = async (method: string, path: string, body: object): Promise<string> => {
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(brain.url + path, { method, headers, body: JSON.stringify(body) });
      return response.text();
    };
    const tags = { tool: 'x', category: 'read', approved: 'yes' };
    const payload = { agent: 'a', tool: 'x', args: {} };
    const forged: readonly object[] = [
      ...['tool', 'approval', 'report'].map((type) => ({ type, tags, payload })),
      { type: 'agent', parent_id: 'p', tags, payload: { agent: 'a', input: 'x' } },
    ];
    const entrances: Readonly<Record<string, (job: object) => Promise<string>>> = {
      'one job': (job) => ask('POST', '/v2/tasks', job),
      'several jobs': (job) => ask('POST', '/v2/tasks', [job]),
      'a schedule': (job) => ask('PUT', '/v2/schedules/s', { every_sec: 1, job }),
      'an MCP client': (job) => {
        const params = { name: 'submit_job', arguments: job };
        return ask('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params });
      },
    };
    await brain.orchestrator.submit({ job_id: 'p', type: 'nobody', payload: {} });
    for (const [name, entrance] of Object.entries(entrances))
      for (const job of forged)
        assert.match(await entrance(job), /INVALID_PARAMS|parent_id/, `${name}: ${JSON.stringify(job)}`);
    assert.deepEqual(
      (await brain.orchestrator.list({ limit: 10 })).jobs.map(({ job_id: id }) => id),
      ['p'],
    );
  });

  test('are run by no command, no function and no backend of a program', async () => {
    const env = realEnv();
    for (const type of OWN) {
      const text = `backends: {commands: [{name: c, types: {${type}: {argv: ["true"]}}}]}`;
      assert.throws(() => loadConfig({ text }), {
        code: 'CONFIG_INVALID',
        message: /belong to the runs of agents/,
      });
      const options = { name: 'f', types: { [type]: () => 'mine' } };
      for (const backend of [options, new FunctionBackend(env, options)])
        await assert.rejects(createOrchestrator({ data: 'memory', backends: [backend] }), {
          code: 'INVALID_PARAMS',
        });
    }
  });

  test('are run neither by a backend that a source brings, nor by one for jobs of any type', async (t) => {
    const env = realEnv();
    const taken: string[] = [];
    const types = Object.fromEntries(OWN.map((type) => [type, () => taken.push(type)]));
    const thief = new FunctionBackend(env, { name: 'thief', slots: 9, types });
    const any = new FunctionBackend(env, { name: 'any', slots: 9, types });
    const taker: Backend = new Proxy(any, {
      get: (target, name) => {
        if (name === 'info') return { ...target.info, types: undefined };
        const member = Reflect.get(target, name) as unknown;
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
    const source: BackendSource = {
      start: (listener: BackendListener) => listener.present(thief),
      stop: async () => undefined,
      forget: () => undefined,
    };
    const model = new ScriptedModel(
      (turn): Said => (turn < 20 ? { calls: [['c', 'current_time', {}]] } : { text: 'done' }),
    );
    const config = 'agents: [{name: a, model: scripted, max_steps: 5, tools: [current_time]}]';
    const backends = [model.backend(), taker];
    const brain = await start(t, { data: 'memory', config, backends, sources: [source] });
    await brain.submit({ job_id: 'r', type: 'agent', payload: { agent: 'a', input: 'x' } });
    assert.equal((await within(brain.wait('r'))).state, 'succeeded');
    assert.deepEqual(taken, []);
  });
});

test('a call that must be allowed by now, and was made when it did not have to be, is not made', async (t) => {
  const config = 'agents: [{name: a, model: scripted, tools: [current_time], approve: [current_time]}]';
  const brain = await start(t, { data: 'memory', config, backends: [] });
  for (const [approved, isMade] of [
    [undefined, false],
    [false, false],
    [true, true],
  ] as const) {
    const payload = { agent: 'a', tool: 'current_time', args: {}, approved };
    const { job_id } = await brain.submit({ type: 'tool', backend: 'function', payload });
    const { result } = await within(brain.wait(job_id));
    assert.equal((result as { ok: boolean }).ok, isMade, String(approved));
  }
});

describe('a run whose agent', () => {
  const begun = () => {
    const asked = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const model = new ScriptedModel(async (turn, { messages }): Promise<Said> => {
      if (turn > 0) return { text: 'the end' };
      if (messages[0]?.content.startsWith('Lead')) return { calls: [['b', 'a', { input: 'x' }]] };
      asked.resolve();
      await goOn.promise;
      return { calls: [['c', 'current_time', {}]] };
    });
    return { model, asked: asked.promise, goOn: goOn.resolve };
  };
  const BEFORE = 'agents: [{name: a, model: scripted, instructions: Be kind., tools: [current_time]}]';

  for (const [how, after, told] of [
    ['was removed', '', /may no longer use this tool/],
    ['has another definition', BEFORE.replace('Be kind.', 'Be rude.'), /"time_zone":"UTC"/],
  ] as const)
    onStores(`${how} goes on with the one that it began with`, LASTING, async (t, data) => {
      const { model, asked, goOn } = begun();
      const backends = [model.backend()];
      const first = await start(t, { data, config: BEFORE, backends });
      await first.submit({ job_id: 'r', type: 'agent', payload: { agent: 'a', input: 'x' } });
      await within(asked);
      const stopped = first.stop();
      goOn();
      await within(stopped);
      const second = await start(t, { data, config: after, backends });
      const { result } = await within(second.wait('r'));
      assert.equal((result as { reply: string }).reply, 'the end');
      const { messages = [] } = model.heard.at(-1) ?? {};
      assert.match(messages[0]?.content ?? '', /^Be kind\./);
      assert.match(unmarked(messages.at(-1)?.content ?? ''), told);
    });

  onStores('was removed leaves no rights to the agents below it', LASTING, async (t, data) => {
    const { model, asked, goOn } = begun();
    const backends = [model.backend()];
    const leading = BEFORE.replace(
      ']}]',
      ']}, {name: boss, model: scripted, instructions: Lead., tools: [a]}]',
    );
    const first = await start(t, { data, config: leading, backends });
    await first.submit({ job_id: 'r', type: 'agent', payload: { agent: 'boss', input: 'x' } });
    await within(asked);
    const stopped = first.stop();
    goOn();
    await within(stopped);
    const second = await start(t, { data, config: BEFORE, backends });
    await within(second.wait('r'));
    const told = model.heard.map(({ messages }) => messages.at(-1)?.content ?? '');
    assert.ok(
      told.some((text) => /not allowed: there is no agent "boss" any more/.test(text)),
      told.join('\n'),
    );
  });
});
