/**
 * Hundreds of worlds: brain and journal over a disk that loses what was not synced, executors that misbehave,
 * crashes at any await. A failing seed replays with `npm run sim -- --seed S`.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { simulateAgents } from './agents/simulate.ts';
import { simulateGateway } from './gateway/simulate.ts';
import { type Outcome, simulate } from './simulate.ts';

/** `npm run sim -- --seeds N` takes more of them. */
const SEEDS = 60;
const FAULTS_PER_SEED = 0.4;
const FAULTS = ['kill', 'power-cut', 'disk-full', 'failed-sync', 'checkpoint', 'forget', 'partition'];

test('in every world each acknowledged job ends exactly once and none is run twice', async (context) => {
  const failed: string[] = [];
  const seen = new Map<string, number>();
  let events = 0;
  let claimed = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    try {
      const outcome = await simulate(seed);
      events += outcome.events;
      claimed += outcome.claimed ?? 0;
      for (const [name, times] of Object.entries(outcome.faults))
        seen.set(name, (seen.get(name) ?? 0) + times);
    } catch (error) {
      failed.push(`seed ${seed}: ${(error as Error).message}`);
    }
  }
  context.diagnostic(`${SEEDS} seeds, ${events} events, faults ${JSON.stringify(Object.fromEntries(seen))}`);
  assert.deepEqual(failed, []);
  assert.ok(claimed >= SEEDS, `consumers ran ${claimed} attempts`);
  for (const fault of FAULTS)
    assert.ok((seen.get(fault) ?? 0) >= SEEDS * FAULTS_PER_SEED, `${fault} happened often enough to count`);
});

const GATEWAY_SEEDS = 50;
const GATEWAY_FAULTS_PER_SEED = 0.5;
const GATEWAY_FAULTS = ['kill-brain', 'kill-gateway', 'kill-both', 'power-cut', 'partition'];

test('[FANO-9] in every world with a gateway no job is bought again by itself, and none is lost', async (context) => {
  const failed: string[] = [];
  const seen = new Map<string, number>();
  for (let seed = 1; seed <= GATEWAY_SEEDS; seed++) {
    try {
      const { faults } = await simulateGateway(seed);
      for (const [name, times] of Object.entries(faults)) seen.set(name, (seen.get(name) ?? 0) + times);
    } catch (error) {
      failed.push(`seed ${seed}: ${(error as Error).message}`);
    }
  }
  context.diagnostic(`${GATEWAY_SEEDS} seeds, faults ${JSON.stringify(Object.fromEntries(seen))}`);
  assert.deepEqual(failed, []);
  for (const fault of GATEWAY_FAULTS)
    assert.ok(
      (seen.get(fault) ?? 0) >= GATEWAY_SEEDS * GATEWAY_FAULTS_PER_SEED,
      `${fault} happened often enough to count`,
    );
});

const AGENT_SEEDS = 25;
const AGENT_FAULTS_PER_SEED = 0.6;
const AGENT_FAULTS = ['kill', 'power-cut', 'checkpoint', 'forget', 'partition', 'decision', 'answer'];

test('in every world with agents a run ends with the same answer, no call with an effect is made twice, and no wake is lost', async (context) => {
  const failed: string[] = [];
  const seen = new Map<string, number>();
  let runs = 0;
  for (let seed = 1; seed <= AGENT_SEEDS; seed++) {
    try {
      const outcome = await simulateAgents(seed);
      runs += outcome.runs;
      for (const [name, times] of Object.entries(outcome.faults))
        seen.set(name, (seen.get(name) ?? 0) + times);
    } catch (error) {
      failed.push(`seed ${seed}: ${(error as Error).message}`);
    }
  }
  context.diagnostic(
    `${AGENT_SEEDS} seeds, ${runs} runs, faults ${JSON.stringify(Object.fromEntries(seen))}`,
  );
  assert.deepEqual(failed, []);
  for (const fault of AGENT_FAULTS)
    assert.ok(
      (seen.get(fault) ?? 0) >= AGENT_SEEDS * AGENT_FAULTS_PER_SEED,
      `${fault} happened often enough to count`,
    );
});

test('a seed replays to the same events, disk calls and executions', async () => {
  for (const seed of [3, 17, 96, 450, 841]) {
    const first = await simulate(seed);
    const again: Outcome = await simulate(seed);
    assert.deepEqual(again, first);
    assert.deepEqual(await simulateGateway(seed), await simulateGateway(seed));
    assert.deepEqual(await simulateAgents(seed), await simulateAgents(seed));
  }
});

test('a wrong call of `npm run sim` is a line and the usage', () => {
  for (const [words, says] of [
    [['--sedes', '3'], "sim: Unknown option '--sedes'."],
    [['--seeds', 'x'], 'sim: --seeds needs a whole number from 1, not "x".'],
  ] as const) {
    const main = join(import.meta.dirname, 'run.ts');
    const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], { encoding: 'utf8' });
    assert.deepEqual([status, stdout], [2, '']);
    assert.ok(stderr.startsWith(`${says}\nusage: npm run sim -- `) && !stderr.includes('    at '), stderr);
  }
});
