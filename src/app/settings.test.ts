import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../config/load.ts';
import { runtimeSettings } from './settings.ts';

const poolsOf = (text: string) => runtimeSettings(loadConfig({ text })).engine.pools;

test('[ORCH-1140] [ORCH-1141] the brain runs with what is configured', () => {
  const { engine } = runtimeSettings(
    loadConfig({
      text: `orchestrator:
  queue_capacity: 11
  queue_policy: drop-lru
  placement_algorithm: round-robin
  eviction_policy: manual
  worker_timeout_sec: 12`,
    }),
  );
  assert.deepEqual([engine.queueCapacity, engine.queuePolicy], [11, 'drop-lru']);
  const { placement, eviction, workerTimeoutMs } = engine.pools;
  assert.deepEqual([placement, eviction, workerTimeoutMs], ['round-robin', 'manual', 12_000]);
});

test('[ORCH-1031] [ORCH-1050] the algorithm of placement and the policy of eviction are the configured ones', () => {
  for (const algorithm of ['least-loaded', 'most-vram-free', 'round-robin'])
    assert.equal(poolsOf(`orchestrator: { placement_algorithm: ${algorithm} }`).placement, algorithm);
  for (const policy of ['lru', 'lfu', 'manual'])
    assert.equal(poolsOf(`orchestrator: { eviction_policy: ${policy} }`).eviction, policy);
});

test('[ORCH-1042] a start is tried twice unless something else is configured, each for the configured time', () => {
  const { startTries, startTimeoutMs } = poolsOf('');
  assert.deepEqual([startTries, startTimeoutMs], [2, 60_000]);
  const { startTimeoutMs: configured } = poolsOf('pools: { start_timeout_sec: 5 }');
  assert.equal(configured, 5000);
});

test('[ORCH-16.1] the multi-objective placement can be configured besides the three named algorithms', () => {
  for (const algorithm of ['least-loaded', 'most-vram-free', 'round-robin', 'multi-objective']) {
    const { placement } = poolsOf(`orchestrator: { placement_algorithm: ${algorithm} }`);
    assert.equal(placement, algorithm);
  }
});

test('[ORCH-16.3] the region of the brain is configured; without one no region is preferred', () => {
  assert.equal(poolsOf('pools: { region: eu-west }').region, 'eu-west');
  assert.equal(poolsOf('').region, undefined);
});
