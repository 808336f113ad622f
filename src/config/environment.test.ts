import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { readFiles } from '../../test/architecture/source.ts';
import { variableName } from './environment.ts';
import { CONFIG_LEAVES } from './leaves.ts';
import { defaultConfig, loadConfig } from './load.ts';
import { hasConfigVariable, isOtherVariable, OTHER_VARIABLES } from './variables.ts';

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

interface SchemaFacts {
  readonly default?: unknown;
  readonly type?: string;
  readonly optIn?: boolean;
}

test('every key can be set by its variable', () => {
  for (const { path, schema } of CONFIG_LEAVES) {
    const { default: fallback, type, optIn } = schema as SchemaFacts;
    const value = type === 'array' ? JSON.stringify(fallback) : String(fallback);
    const env = { [variableName(path)]: value };
    // A key that has an effect as soon as it is set has one with its default too.
    const check = optIn ? assert.notDeepEqual : assert.deepEqual;
    check(loadConfig({ env }), defaultConfig(), variableName(path));
  }
});

test('variables of the command line and of other programs are left alone', () => {
  const others = Object.fromEntries(OTHER_VARIABLES.map((name) => [name, 'x']));
  const env = { ...others, PATH: '/bin', ORCHD: 'x', ORCHD_POOL_URL: undefined };
  assert.deepEqual(loadConfig({ env }), defaultConfig());
});

/** What loading says about an environment that changes nothing. */
function warningsOf(env: Record<string, string>): string[] {
  const warnings: string[] = [];
  assert.deepEqual(loadConfig({ env, onWarning: (sentence) => warnings.push(sentence) }), defaultConfig());
  return warnings;
}

test('a variable that means nothing is no obstacle, and warned of with a hint', () => {
  assert.deepEqual(
    warningsOf({ ORCHD_ORCHESTRATOR_QUEUE_CAPACTY: 'secret', ORCHD_X: '1', ORCHD_PORT: '9000' }),
    [
      'ORCHD_ORCHESTRATOR_QUEUE_CAPACTY is not a variable of orchd and has no effect; did you mean ORCHD_ORCHESTRATOR_QUEUE_CAPACITY?',
      ...warningsOf({ ORCHD_PORT: '9000' }),
      'ORCHD_X is not a variable of orchd and has no effect',
    ],
  );
  assert.match(warningsOf({ ORCHD_PORT: '9000' }).join(), /^ORCHD_PORT is not a variable of orchd/);
});

test('the variables that Kubernetes sets for Services are ignored', () => {
  const links: Record<string, string> = {};
  for (const name of ['ORCHD', 'ORCHD_POOL', 'ORCHD_2', 'ORCHD_ORCHESTRATOR']) {
    links[`${name}_SERVICE_HOST`] = '10.0.171.239';
    links[`${name}_SERVICE_PORT`] = '8080';
    links[`${name}_SERVICE_PORT_HTTP_API`] = '8080';
    for (const protocol of ['tcp', 'udp', 'sctp']) {
      const port = `${name}_PORT_8080_${protocol.toUpperCase()}`;
      links[`${name}_PORT`] = `${protocol}://10.0.171.239:8080`;
      links[port] = `${protocol}://10.0.171.239:8080`;
      links[`${port}_PROTO`] = protocol;
      links[`${port}_PORT`] = '8080';
      links[`${port}_ADDR`] = '10.0.171.239';
    }
  }
  assert.deepEqual(warningsOf(links), []);
  assert.equal(hasConfigVariable(links), false);
  for (const { path } of CONFIG_LEAVES)
    assert.ok(
      !isOtherVariable(variableName(path), 'tcp://10.0.0.1:1'),
      `${variableName(path)} stays a setting`,
    );
});

test('every variable that any part of orchd reads is known', () => {
  const settings = CONFIG_LEAVES.map(({ path }) => variableName(path));
  const sources = readFiles(join(import.meta.dirname, '../..'));
  for (const [path, text] of sources) {
    if (!/^src\/.*(?<!\.test)\.ts$/.test(path) || path === 'src/config/variables.ts') continue;
    for (const [name] of text.matchAll(/\bORCHD_[A-Z_]*[A-Z]\b/g))
      assert.ok(settings.includes(name) || OTHER_VARIABLES.includes(name), `${name} in ${path}`);
  }
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
  const load = () => loadConfig({ text: 'pol: {}\n', label: 'c.yaml', env: { ORCHD_POOL_TIMEOUT: 'x' } });
  assert.throws(load, {
    message:
      /^c\.yaml:1:1: pol: unknown key; did you mean pool\?\nORCHD_POOL_TIMEOUT: pool\.timeout: expected/,
  });
});

test('a port or a host under a name that other servers have is answered with the way to set the address', () => {
  assert.deepEqual(warningsOf({ ORCHD_PORT: '9000' }), [
    'ORCHD_PORT is not a variable of orchd and has no effect; the address is set by ORCHD_ORCHESTRATOR_BIND_ADDR=127.0.0.1:9000, or by --port 9000',
  ]);
  for (const name of ['ORCHD_HOST', 'ORCHD_BIND_ADDR', 'ORCHD_SERVER_PORT']) {
    const [warning] = warningsOf({ [name]: 'not to be repeated' });
    assert.match(
      warning ?? '',
      /set by ORCHD_ORCHESTRATOR_BIND_ADDR=127\.0\.0\.1:8080, or by --host and --port$/,
    );
  }
});

test('a variable whose path was cut short is answered with its whole name', () => {
  const [warning] = warningsOf({ ORCHD_QUEUE_CAPACITY: '5' });
  assert.match(warning ?? '', /; did you mean ORCHD_ORCHESTRATOR_QUEUE_CAPACITY\?$/);
});
