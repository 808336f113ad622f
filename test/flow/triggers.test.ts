/** Triggers of governance: each metric changes the mode when it has been above its bound for its time, and not before. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Activity } from '../../src/adapters/governance/activity.ts';
import { TriggerWatch } from '../../src/adapters/governance/trigger-watch.ts';
import { startServer } from '../../src/app/server.ts';
import { runtimeSettings } from '../../src/app/settings.ts';
import { FunctionBackend, type FunctionContext } from '../../src/backends/local/functions.ts';
import { OrchdClient } from '../../src/client/client.ts';
import { loadConfig } from '../../src/config/load.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { TriggerMetric } from '../../src/model/governance.ts';
import { FAILED_TOOL } from '../../src/model/run-jobs.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { MemoryStore } from '../../src/stores/memory/memory.ts';
import { HandClock } from '../fakes/hand-clock.ts';
import { refusalOf, turns, within } from './flow-kit.ts';
import { testFolder } from './server-process.ts';
import { eventually } from './site-client.ts';

const logger = createLogger({ write: () => undefined, now: () => 0 });
const FOR_MS = 2000;

const configOf = (metric: TriggerMetric, forMs: number, more: readonly object[] = []) =>
  loadConfig({
    text: JSON.stringify({
      prices: [{ model: 'm', request: 250 }],
      governance: {
        rules: [{ name: 'no-bad', effect: 'deny', types: ['bad'] }],
        triggers: [
          { name: 'alarm', metric, above: metric === 'loop_delay_ms' ? 100 : 0, for_ms: forMs, to: 'ALERT' },
          ...more,
        ],
      },
    }),
  });

const types = {
  tool: (_: unknown, { label }: FunctionContext) => {
    label(FAILED_TOOL);
    return { ok: false, text: 'no' };
  },
  inference: () => ({ text: 'yes' }),
  broken: () => {
    throw new Error('broken');
  },
};

async function brain(t: TestContext, metric: TriggerMetric, more: readonly object[] = []) {
  const env = realEnv();
  const config = configOf(metric, FOR_MS, more);
  const clock = new HandClock();
  const activity = new Activity(clock.env.clock);
  const backend = new FunctionBackend(env, { name: 'b', slots: 4, models: ['m'], types });
  const orchestrator = new Orchestrator({
    env,
    store: new MemoryStore(env.timers),
    backends: [backend],
    settings: runtimeSettings(config),
    observer: activity,
  });
  await orchestrator.start();
  t.after(() => orchestrator.stop());
  const { triggers } = config.governance;
  const watch = new TriggerWatch({ env: clock.env, logger, orchestrator, activity, triggers });
  await watch.start();
  t.after(() => watch.stop());
  return { orchestrator, clock };
}

const runs = (request: SubmitRequest) => async (orchestrator: Orchestrator) => {
  const { job_id: id } = await orchestrator.submit(request);
  await within(orchestrator.wait(id));
};

/** What brings each metric above its bound. */
const DEEDS: Record<TriggerMetric, (orchestrator: Orchestrator) => Promise<unknown>> = {
  tool_error_rate: runs({ type: 'tool', payload: {}, tags: { tool: 'look', category: 'read' } }),
  model_error_rate: runs({ type: 'broken', model: 'm', payload: {}, max_tries: 1 }),
  cost_per_minute: runs({ type: 'inference', model: 'm', prompt: 'x' }),
  violations_per_minute: (orchestrator) => refusalOf(() => orchestrator.submit({ type: 'bad' })),
  queued_jobs: (orchestrator) => orchestrator.submit({ type: 'nobody' }),
  loop_delay_ms: async () => undefined,
};

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe('[ADR-7] a trigger', () => {
  for (const [metric, deed] of Object.entries(DEEDS) as [TriggerMetric, (typeof DEEDS)[TriggerMetric]][])
    test(`on ${metric} changes the mode when it was above its bound for its time`, async (t) => {
      const { orchestrator, clock } = await brain(t, metric);
      const modeAfter = async (): Promise<string> => {
        if (metric === 'loop_delay_ms') block(300);
        await turns();
        clock.pass(1000);
        await turns();
        const { mode, by } = await orchestrator.governance.view();
        return `${mode} by ${by}`;
      };
      if (metric !== 'loop_delay_ms')
        for (let second = 0; second < 4; second++) assert.equal(await modeAfter(), 'NORMAL by start');
      await deed(orchestrator);
      for (let ms = 0; ms < FOR_MS; ms += 1000) assert.equal(await modeAfter(), 'NORMAL by start');
      assert.equal(await modeAfter(), 'ALERT by trigger:alarm');
      assert.match((await orchestrator.governance.view()).why, new RegExp(`^${metric} is [\\d.]+, above`));
    });

  test('leaves people their time on the way back, whose cause may last; a stricter one goes on counting', async (t) => {
    const more = { name: 'worse', metric: 'queued_jobs', above: 0, for_ms: 2 * FOR_MS, to: 'LOCKDOWN' };
    const { orchestrator, clock } = await brain(t, 'queued_jobs', [more]);
    const { governance } = orchestrator;
    const modeAfter = async (ms: number): Promise<string> => {
      for (let passed = 0; passed < ms; passed += 1000) {
        await turns();
        clock.pass(1000);
        await turns();
      }
      return (await governance.view()).mode;
    };
    await orchestrator.submit({ type: 'nobody' });
    assert.equal(await modeAfter(FOR_MS + 1000), 'ALERT');
    assert.equal(await modeAfter(FOR_MS), 'LOCKDOWN', 'twice its time after the metric rose');
    for (const mode of ['RECOVERY', 'NORMAL'] as const)
      await governance.setByPerson({ mode, why: 'the job may wait' }, 'ann');
    assert.equal(await modeAfter(FOR_MS), 'NORMAL');
    assert.equal(await modeAfter(1000), 'ALERT', 'the metric was above its bound for its time again');
  });

  test('is looked at by a server', async (t) => {
    const config = configOf('queued_jobs', 0);
    const server = await startServer({ config, data: testFolder(t), version: '0.0.0', logger, port: 0 });
    t.after(() => server.stop());
    const client = new OrchdClient({ url: server.url });
    await client.submit({ type: 'nobody', payload: {}, wait_for_backend: true });
    await eventually('the mode is ALERT', async () => (await client.governance()).mode === 'ALERT');
  });
});
