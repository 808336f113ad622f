import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'yaml';
import { COMMAND_DEFAULTS } from '../backends/local/command/options.ts';
import { SPOOL_BACKEND_DEFAULTS } from '../backends/spool/spool-source.ts';
import { checkPrices } from '../runtime/check-limits.ts';
import {
  COMMAND_KEYS,
  COMMAND_TYPE_KEYS,
  type CommandConfig,
  REMOTE_GATEWAY_KEYS,
  SPOOL_KEYS,
  type SpoolConfig,
} from './backends.ts';
import { applyDefaults } from './defaults.ts';
import { PAGE_DEFAULTS, SEAT_DEFAULTS, SEAT_KEYS } from './gateway.ts';
import { CONFIG_LEAVES, leavesOf, valueAt } from './leaves.ts';
import { defaultConfig, loadConfig } from './load.ts';
import { MODULE_DEFAULTS, MODULE_KEYS } from './modules.ts';
import { ConfigSchema } from './schema.ts';

const exampleText = readFileSync(new URL('../../config.example.yaml', import.meta.url), 'utf8');

test('config.example.yaml holds every key with its default, and nothing else', () => {
  assert.deepEqual(loadConfig({ text: exampleText, label: 'config.example.yaml' }), defaultConfig());
  const example: unknown = parse(exampleText);
  for (const { path, schema } of CONFIG_LEAVES) {
    const { default: fallback, optIn } = schema as { default?: unknown; optIn?: boolean };
    const value = valueAt(example, path);
    assert.deepEqual(value, optIn ? undefined : fallback, path.join('.'));
    // A key that has an effect as soon as it is set stands there as a comment.
    if (optIn) assert.ok(exampleText.includes(`\n  # ${path.at(-1)}: ${JSON.stringify(fallback)}\n`));
  }
});

/** The lines of the entry that stands as a comment before the line `last`, without the marks of the comment. */
function commentedEntry(last: string): readonly string[] {
  const lines = exampleText.split('\n');
  const to = lines.indexOf(last);
  const from = lines.findLastIndex((line, at) => at < to && line.startsWith('  #   - name: '));
  return lines.slice(from, to).map((line) => line.replace(/^ {2}# {3}/, '    '));
}

/** One line of explanation stands before each key. */
function checkExplained(shown: readonly string[], isExempt: (line: string) => boolean): void {
  for (const [at, line] of shown.entries())
    if (at > 0 && !line.trim().startsWith('#') && !isExempt(line))
      assert.match(shown[at - 1] as string, /^\s*# .*\.$/, line);
}

test('config.example.yaml shows everything that a seat may set, with its default', () => {
  const account = commentedEntry('  #   - name: chat-1');
  const browser = commentedEntry('  seats: []');
  const shown = [...account.filter((line) => !line.includes('key_file:')), ...browser];
  const text = ['gateway:', '  seats:', ...shown, ''].join('\n');
  const [seat, chat] = loadConfig({ text }).gateway.seats;
  assert.ok(seat && chat);
  const keys = new Set([...Object.keys(seat), 'key_file', ...Object.keys(chat)]);
  assert.deepEqual([...keys].sort(), [...SEAT_KEYS].sort());
  const { slots, keep, preempt } = seat;
  assert.deepEqual({ slots, keep, preempt }, SEAT_DEFAULTS);
  const { name, driver, url, models, selectors, profile, executable, ...pageDefaults } = chat;
  assert.deepEqual(pageDefaults, PAGE_DEFAULTS);
  assert.ok(name && driver && url && models && selectors && profile && executable);
  checkExplained(account, () => false);
  checkExplained(browser, () => false);
});

test('config.example.yaml shows everything that a spool may set, with its default', () => {
  const shown = commentedEntry('  spools: []');
  const text = ['backends:', '  spools:', ...shown, ''].join('\n');
  const [spool] = loadConfig({ text }).backends.spools;
  assert.ok(spool);
  const { name, folder, types, models, ...rest } = spool as SpoolConfig;
  assert.deepEqual(Object.keys(spool).sort(), [...SPOOL_KEYS].sort());
  const { keepAckedMs, ...same } = SPOOL_BACKEND_DEFAULTS;
  assert.deepEqual(rest, { ...same, keep_output_sec: keepAckedMs / 1000 });
  assert.ok(name && folder && types && models, 'what has no default is shown by an example');
  checkExplained(shown, () => false);
});

test('config.example.yaml shows everything that a gateway of somebody else may set', () => {
  const shown = commentedEntry('  gateways: []');
  const [gateway] = loadConfig({ text: ['backends:', '  gateways:', ...shown, ''].join('\n') }).backends
    .gateways;
  assert.deepEqual(Object.keys(gateway ?? {}).sort(), [...REMOTE_GATEWAY_KEYS].sort());
  checkExplained(shown, () => false);
});

test('config.example.yaml shows everything that a command may set, with its default', () => {
  const shown = commentedEntry('  commands: []');
  const text = ['backends:', '  commands:', ...shown, ''].join('\n');
  const [command] = loadConfig({ text }).backends.commands;
  assert.ok(command);
  const { name, models, types, ...rest } = command as CommandConfig;
  const { argv, cwd, ...typeRest } = types['word-count'] as CommandConfig['types'][string];
  assert.deepEqual(Object.keys(command).sort(), [...COMMAND_KEYS].sort());
  const { resume_argv, output } = types['ask'] as CommandConfig['types'][string];
  const shownKeys = Object.keys({ argv, cwd, resume_argv, output, ...typeRest });
  assert.deepEqual(shownKeys.sort(), [...COMMAND_TYPE_KEYS].sort());
  const { keepAckedMs, maxOutputBytes, env, split, ...same } = COMMAND_DEFAULTS;
  const defaults = { ...same, keep_output_sec: keepAckedMs / 1000, max_output_bytes: maxOutputBytes };
  assert.deepEqual(rest, defaults);
  assert.deepEqual(typeRest, { env, split });
  assert.ok(name && models && argv && cwd, 'what has no default is shown by an example');
  assert.ok(resume_argv && output?.thread && output.usage);
  checkExplained(shown, (line) => line.includes('word-count:'));
});

test('config.example.yaml shows everything that a module may set, with its default', () => {
  const lines = exampleText.split('\n');
  const to = lines.indexOf('modules: []');
  const from = lines.findLastIndex((line, at) => at < to && line.startsWith('#   - name: '));
  const shown = lines.slice(from, to).map((line) => line.slice(2));
  const [module] = loadConfig({ text: ['modules:', ...shown, ''].join('\n') }).modules;
  assert.ok(module);
  assert.deepEqual(Object.keys(module).sort(), [...MODULE_KEYS].sort());
  const { interval_sec, timeout_sec, memory_mb, max_proposals } = module;
  assert.deepEqual({ interval_sec, timeout_sec, memory_mb, max_proposals }, MODULE_DEFAULTS);
  checkExplained(shown, () => false);
});

test('[FANO-11] the original keys stand at their original paths with their original defaults', () => {
  const written: Record<string, unknown> = {};
  applyDefaults(written);
  const originals: Record<string, unknown> = {
    'orchestrator.state.checkpoint_dir': 'data/orchestrator',
    'orchestrator.state.checkpoint_interval': 60,
    'orchestrator.scheduler.jit_poll_interval': 1.0,
    'orchestrator.scheduler.failure_cache_ttl': 3600,
    'orchestrator.recovery.orphan_reconciliation': true,
    'pool.url': 'http://localhost:8000',
    'pool.timeout': 3600,
  };
  for (const [path, value] of Object.entries(originals)) {
    assert.equal(valueAt(written, path.split('.')), value, path);
  }
  const brain = leavesOf(ConfigSchema.properties.orchestrator).map((leaf) => leaf.path.join('.'));
  const requiredKeys = ['bind_addr', 'pool_managers', 'queue_capacity', 'queue_policy'];
  const optionalKeys = ['placement_algorithm', 'eviction_policy', 'worker_timeout_sec', 'catalog_path'];
  for (const key of [...requiredKeys, ...optionalKeys]) assert.ok(brain.includes(key), key);
});

test('[FANO-11] [ORCH-1140] [ORCH-1141] each of the original keys is read from the YAML file', () => {
  const config = loadConfig({
    text: `
orchestrator:
  bind_addr: "127.0.0.2:1"
  pool_managers: http://a:1,http://b:2
  queue_capacity: 11
  queue_policy: drop-lru
  placement_algorithm: round-robin
  eviction_policy: manual
  worker_timeout_sec: 12
  catalog_path: somewhere
  state: { checkpoint_dir: elsewhere, checkpoint_interval: 13 }
  scheduler: { jit_poll_interval: 1.4, failure_cache_ttl: 15 }
  recovery: { orphan_reconciliation: false }
pool: { url: "http://localhost:16", timeout: 17 }
`,
  });
  const { server, state, queue, scheduler, placement, recovery, pool } = config;
  assert.deepEqual([server.host, server.port], ['127.0.0.2', 1]);
  assert.deepEqual(state, {
    checkpointDir: 'elsewhere',
    checkpointIntervalMs: 13_000,
    catalogPath: 'somewhere',
  });
  assert.deepEqual([queue.capacity, queue.policy], [11, 'drop-lru']);
  assert.deepEqual([scheduler.jitPollIntervalMs, scheduler.failureCacheTtlMs], [1400, 15_000]);
  assert.deepEqual(placement, { algorithm: 'round-robin', evictionPolicy: 'manual' });
  assert.equal(recovery.orphanReconciliation, false);
  assert.deepEqual(pool, {
    url: 'http://localhost:16',
    timeoutMs: 17_000,
    managerUrls: ['http://a:1', 'http://b:2'],
    workerTimeoutMs: 12_000,
  });
});

test('[ORCH-1140] [ORCH-1141] the settings of the original have the defaults that the requirements state', () => {
  const { server, pool, queue, placement } = defaultConfig();
  assert.deepEqual([server.host, server.port], ['127.0.0.1', 8080]);
  assert.deepEqual([pool.managerUrls, queue.capacity, queue.policy], [[], 10_000, 'reject']);
  assert.deepEqual([placement.algorithm, placement.evictionPolicy], ['least-loaded', 'lru']);
  assert.equal(pool.workerTimeoutMs, 300_000);
  const { scheduler, pools } = defaultConfig();
  assert.deepEqual(
    [scheduler.cancelDeadlineMs, pools.startTimeoutMs, pools.stateMaxAgeMs],
    [5000, 60_000, 2000],
  );
  for (const algorithm of ['least-loaded', 'most-vram-free', 'round-robin', 'multi-objective']) {
    const text = `orchestrator: { placement_algorithm: ${algorithm} }`;
    assert.equal(loadConfig({ text }).placement.algorithm, algorithm);
  }
  for (const policy of ['lru', 'lfu', 'manual']) {
    const text = `orchestrator: { eviction_policy: ${policy} }`;
    assert.equal(loadConfig({ text }).placement.evictionPolicy, policy);
  }
});

test('examples/prices.yaml is a configuration of its own, whose prices can be set', () => {
  const text = readFileSync(new URL('../../examples/prices.yaml', import.meta.url), 'utf8');
  const { money, ...rest } = loadConfig({ text, label: 'examples/prices.yaml' });
  const { money: _, ...defaults } = defaultConfig();
  assert.deepEqual(rest, defaults, 'it sets nothing but money');
  assert.ok(money.prices.length > 5);
  checkPrices(money.prices);
  assert.match(text, /^# An example, and not a default/);
});
