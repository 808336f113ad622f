/** Runs of an agent before the only seat of a real gateway, which is in a process of its own and before a fake provider. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RunResult } from '../../src/agents/run.ts';
import { GATEWAY_PROGRAM } from '../../src/daemons/gateway/layout.ts';
import type { Tool } from '../../src/index.ts';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import { start, tempFolder, within } from './flow-kit.ts';
import { sourceOf } from './gateway-kit.ts';
import { ledgerFile } from './provider-kit.ts';

const LOOK: Tool = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object', properties: { far: { type: 'boolean' } } },
  effect: 'pure',
  run: ({ far }) => `seen ${far ? 'far' : 'near'}`,
};

/** Enough that most runs wait for the seat; every call of the model is a request to two processes. */
const RUNS = 40;

test('all runs and their calls finish on the one seat of a gateway, and what was begun goes first', async (t) => {
  const provider = new FakeOpenAi(ledgerFile(t));
  await provider.start();
  t.after(() => provider.stop());
  const seat = {
    name: 'seat',
    driver: 'openai',
    mode: 'chat',
    models: ['chat'],
    url: provider.url,
    keep: false,
  };
  const { source } = sourceOf(t, {
    config: { gateway: { bind_addr: '127.0.0.1:0', seats: [seat] } },
    program: GATEWAY_PROGRAM,
  });
  const brain = await start(t, {
    data: tempFolder(t),
    backends: [],
    sources: [source],
    config: 'agents: [{name: helper, model: chat, tools: [look]}]',
    tools: [LOOK],
  });
  await source.firstReports();
  const ids = Array.from({ length: RUNS }, (_, at) => `run${at}`);
  // The provider answers to `tools` with a call of `look`, and to anything else with what was said last.
  const ask = (id: string) =>
    brain.submit({ job_id: id, type: 'agent', payload: { agent: 'helper', input: 'tools' } });
  await Promise.all(ids.map(ask));
  const ended = await within(Promise.all(ids.map((id) => brain.wait(id))), 300_000);
  for (const { result } of ended) {
    const { reply, error, steps } = result as RunResult;
    assert.match(reply, /^You said: --- data \w+ ---\nseen far\n/);
    assert.equal(error, null);
    assert.deepEqual(
      steps.map(({ event, error: code }) => [event, code]),
      [
        ['llm_call', undefined],
        ['tool_call', undefined],
        ['llm_call', undefined],
      ],
    );
  }
  const calls = await Promise.all(ids.flatMap((id) => [brain.get(`${id}.1`), brain.get(`${id}.3`)]));
  const backends = calls.flatMap(({ attempts }) => attempts.map(({ backend }) => backend));
  assert.deepEqual([...new Set(backends)], ['seat']);
  const [firstEnd, lastStart] = [ended[0]?.ended_at ?? 0, calls.at(-2)?.started_at ?? 0];
  assert.ok(firstEnd < lastStart, 'the first run has ended before the last one has the seat');
});
