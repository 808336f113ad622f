import assert from 'node:assert/strict';
import { test } from 'node:test';
import { variableName } from './environment.ts';
import { CONFIG_LEAVES } from './leaves.ts';
import { defaultConfig, loadConfig } from './load.ts';
import { OTHER_VARIABLES } from './variables.ts';

test('a variable overrides the file, typed by the schema', () => {
  const text = 'orchestrator: { queue_capacity: 7, queue: { capacity_bytes: 20000000 } }\n';
  const config = loadConfig({
    text,
    env: {
      ORCHD_ORCHESTRATOR_QUEUE_CAPACITY: '50',
      ORCHD_ORCHESTRATOR_QUEUE_POLICY: 'drop-lru',
      ORCHD_ORCHESTRATOR_RECOVERY_ORPHAN_RECONCILIATION: 'false',
      ORCHD_ORCHESTRATOR_SCHEDULER_JIT_POLL_INTERVAL: ' 0.5 ',
      ORCHD_ORCHESTRATOR_POOL_MANAGERS: 'http://a:9200, http://b:9200',
      ORCHD_LOG_LEVEL: 'debug',
    },
  });
  assert.equal(config.queue.capacity, 50);
  assert.equal(config.queue.capacityBytes, 20_000_000);
  assert.equal(config.queue.policy, 'drop-lru');
  assert.equal(config.recovery.orphanReconciliation, false);
  assert.equal(config.scheduler.jitPollIntervalMs, 500);
  assert.deepEqual(config.pool.managerUrls, ['http://a:9200', 'http://b:9200']);
  assert.equal(config.log.level, 'debug');
});

test('every key has a variable of its own', () => {
  const names = CONFIG_LEAVES.map((leaf) => variableName(leaf.path));
  assert.equal(new Set(names).size, names.length);
  for (const name of OTHER_VARIABLES) assert.ok(!names.includes(name), name);
});

test('every key can be set by its variable', () => {
  for (const { path, schema } of CONFIG_LEAVES) {
    const { default: fallback, type } = schema as { default?: unknown; type?: string };
    const value = type === 'array' ? JSON.stringify(fallback) : String(fallback);
    const env = { [variableName(path)]: value };
    assert.deepEqual(loadConfig({ env }), defaultConfig(), variableName(path));
  }
});

test('variables of the command line and of other programs are left alone', () => {
  const others = Object.fromEntries(OTHER_VARIABLES.map((name) => [name, 'x']));
  const env = { ...others, PATH: '/bin', ORCHD: 'x', ORCHD_POOL_URL: undefined };
  assert.deepEqual(loadConfig({ env }), defaultConfig());
});

test('a variable that means nothing is refused, with a hint', () => {
  const env = { ORCHD_ORCHESTRATOR_QUEUE_CAPACTY: '5' };
  const message =
    'ORCHD_ORCHESTRATOR_QUEUE_CAPACTY: no such variable; did you mean ORCHD_ORCHESTRATOR_QUEUE_CAPACITY?';
  assert.throws(() => loadConfig({ env }), { code: 'CONFIG_INVALID', message });
});

test('a wrong value names the variable and not a line of the file', () => {
  const wrong = (env: Record<string, string>) => () =>
    loadConfig({ text: 'pool: { timeout: 5 }\n', label: 'config.yaml', env });
  assert.throws(wrong({ ORCHD_POOL_TIMEOUT: '0x10' }), {
    code: 'CONFIG_INVALID',
    message: /^ORCHD_POOL_TIMEOUT: pool\.timeout: expected a number/,
  });
  assert.throws(wrong({ ORCHD_POOL_TIMEOUT: '' }), { message: /found an empty text$/ });
  assert.throws(wrong({ ORCHD_ORCHESTRATOR_RECOVERY_ORPHAN_RECONCILIATION: '1' }), {
    message: /expected true or false/,
  });
});

test('faults of the file and of the environment are reported together', () => {
  const load = () => loadConfig({ text: 'pol: {}\n', label: 'c.yaml', env: { ORCHD_X: '1' } });
  assert.throws(load, {
    message: 'ORCHD_X: no such variable\nc.yaml:1:1: pol: unknown key; did you mean pool?',
  });
});
