import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OrchdError } from '../model/errors.ts';
import { type ConfigSource, defaultConfig, loadConfig } from './load.ts';

function refusal(source: ConfigSource): OrchdError {
  try {
    loadConfig({ label: 'config.yaml', ...source });
  } catch (error) {
    assert.ok(error instanceof OrchdError);
    assert.equal(error.code, 'CONFIG_INVALID');
    return error;
  }
  assert.fail('the configuration was accepted');
}

const messageOf = (text: string): string => refusal({ text }).message;

test('no text, an empty text and empty sections all mean the defaults', () => {
  for (const text of ['', '# nothing\n', 'orchestrator:\npool:\n', 'orchestrator:\n  retry:\n']) {
    assert.deepEqual(loadConfig({ text }), defaultConfig());
  }
});

test('a host under which the server is reached is a name or an address, and nothing that would never match', () => {
  for (const host of ['*', '192.0.2.0/24', 'https://orchd.example', 'orchd.example:8080'])
    assert.match(
      messageOf(`server: { allowed_hosts: '${host}' }\n`),
      /server\.allowed_hosts: expected/,
      host,
    );
  const { server } = loadConfig({ text: 'server: { allowed_hosts: "Orchd.Example, 192.0.2.2" }' });
  assert.deepEqual(server.allowedHosts, ['orchd.example', '192.0.2.2']);
});

test('a file changes only the keys it has', () => {
  const config = loadConfig({ text: 'orchestrator:\n  retry:\n    max_tries: 7\n' });
  assert.equal(config.retry.maxTries, 7);
  assert.deepEqual({ ...config, retry: defaultConfig().retry }, defaultConfig());
});

test('[ORCH-1112] seconds become milliseconds, addresses and lists are taken apart', () => {
  const config = loadConfig({
    text: `
orchestrator:
  bind_addr: "[::1]:9000"
  pool_managers: "http://a:9200/, http://b:9200,http://a:9200"
  scheduler: { jit_poll_interval: 0.25 }
`,
  });
  assert.deepEqual([config.server.host, config.server.port], ['::1', 9000]);
  assert.deepEqual(config.pool.managerUrls, ['http://a:9200', 'http://b:9200']);
  assert.equal(config.scheduler.jitPollIntervalMs, 250);
});

test('the configuration is frozen all the way down', () => {
  const frozen = (value: unknown): boolean =>
    typeof value !== 'object' || value === null
      ? true
      : Object.isFrozen(value) && Object.values(value).every(frozen);
  assert.ok(frozen(defaultConfig()));
});

test('an unknown key is refused with its line, its column and the nearest known key', () => {
  const error = refusal({ text: 'orchestrator:\n  queue_capcity: 5\n' });
  const expected = 'config.yaml:2:3: orchestrator.queue_capcity: unknown key; did you mean queue_capacity?';
  assert.equal(error.message, expected);
  assert.deepEqual(error.details, { position: 'config.yaml:2:3', field: 'orchestrator.queue_capcity' });
});

test('an alias inside of what it repeats is refused with its place', () => {
  const refused = (position: string): string =>
    `${position}: an alias stands inside of what it repeats, so it would have no end`;
  assert.equal(messageOf('pool: &p { url: *p }\n'), refused('config.yaml:1:17'));
  assert.equal(messageOf('backends:\n  commands: &list\n    - *list\n'), refused('config.yaml:3:7'));
  assert.equal(messageOf('&all\npool: *all\n'), refused('config.yaml:2:7'));
  assert.equal(messageOf('log: &a { x: &b { y: [*a] } }\n'), refused('config.yaml:1:23'));
  assert.match(messageOf('log: &a { x: &a 1, y: *a }\n'), /log\.x: unknown key/);
});

test('aliases that multiply are refused', () => {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
  for (let n = 1; n < 30; n++) lines.push(`a${n}: &a${n} [${`*a${n - 1}, `.repeat(10)}]`);
  assert.equal(messageOf(lines.join('\n')), 'config.yaml:1:1: too many aliases');
});

test('a known key in the wrong place is pointed to its right one', () => {
  assert.match(
    messageOf('queue_capacity: 5\n'),
    /^config\.yaml:1:1: .*did you mean orchestrator\.queue_capacity\?$/,
  );
  assert.match(messageOf('zzz: 5\n'), /unknown key$/);
});

test('a wrong value is refused at the value and says what is expected', () => {
  const cases: [text: string, expected: RegExp][] = [
    [
      'pool:\n  timeout: soon\n',
      /^config\.yaml:2:12: pool\.timeout: expected a number from .*, found another text$/,
    ],
    ['pool:\n  timeout:\n', /^config\.yaml:2:3: pool\.timeout: .*found nothing$/],
    ['pool: 5\n', /^config\.yaml:1:7: pool: expected a section of keys, found 5$/],
    ['log: { level: warning }\n', /one of debug, info, warn, error, .*did you mean warn\?$/],
    ['orchestrator: { queue_capacity: 0 }\n', /a whole number from 1 to 10000000, found 0$/],
    ['orchestrator: { queue_capacity: 1.5 }\n', /whole number/],
    ['orchestrator: { recovery: { orphan_reconciliation: yes } }\n', /expected true or false/],
    ['orchestrator: { bind_addr: "8080" }\n', /an address such as/],
    ['orchestrator: { bind_addr: "127.0.0.1:99999" }\n', /an address such as/],
    ['orchestrator: { pool_managers: [ftp://a] }\n', /a list of http or https URLs/],
    ['orchestrator: { pool_managers: [1] }\n', /a list of http or https URLs/],
    [
      'server: { allowed_origins: not an origin }\n',
      /^config\.yaml:1:28: server\.allowed_origins: .*origins/,
    ],
    ['orchestrator: { queue: { capacity_bytes: -1 } }\n', /a whole number of at least 1, found -1/],
    [
      'limits: [{ scope: global, requests_per_sec: 1e-9 }]\n',
      /^config\.yaml:1:45: limits\[0\]\.requests_per_sec: .*, found 1e-9$/,
    ],
    ['pool: { url: "http://me:hunter2@a" }\n', /without user name and password, found another text$/],
  ];
  for (const [text, expected] of cases) assert.match(messageOf(text), expected, text);
});

test('what is wrong inside of a list is named at its own place', () => {
  const commands = (...lines: string[]): string =>
    ['backends:', '  commands:', ...lines.map((line) => `    ${line}`), ''].join('\n');
  const cases: [text: string, expected: string][] = [
    [commands('- name: a', '  types: {t: {cwd: x}}'), '4:18: backends.commands[0].types.t: missing `argv`'],
    [commands('- {name: a, types: {}}', '- types: {}'), '4:7: backends.commands[1]: missing `name`'],
    [
      commands('- {name: a, types: {}, slots: 0}'),
      '3:35: backends.commands[0].slots: expected a whole number from 1 to 10000, found 0',
    ],
    [
      commands('- {name: a b, types: {}}'),
      '3:14: backends.commands[0].name: expected a name of letters, digits and ._-, found another text',
    ],
    [
      commands('- {name: a, types: {t: {argv: []}}}'),
      '3:35: backends.commands[0].types.t.argv: expected a list of words, the program first, found an empty list',
    ],
    ['leases: {gpus: [{index: 0}]}\n', '1:17: leases.gpus[0]: missing `memory_mb`'],
  ];
  for (const [text, expected] of cases) assert.equal(messageOf(text), `config.yaml:${expected}`);
  assert.throws(() => loadConfig({ env: { ORCHD_LEASES_GPUS: '[{"index": 0}]' } }), {
    message: 'ORCHD_LEASES_GPUS: leases.gpus[0]: missing `memory_mb`',
  });
});

test('every fault of a file is reported, not only the first', () => {
  const text = `
pool: { url: nowhere, timeout: -1 }
orchestrator:
  queue_policy: drop
  queue: { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 }
  state: { checkpoint_interval: never }
`;
  assert.equal(messageOf(text).split('\n').length, 10);
});

test('keys that contradict each other are refused', () => {
  const delays = 'orchestrator: { retry: { base_delay_ms: 500, max_delay_ms: 100 } }\n';
  assert.match(
    messageOf(delays),
    /^config\.yaml:1:60: .*max_delay_ms: may not be less than base_delay_ms \(500\)$/,
  );
  const sizes = 'orchestrator: { queue: { capacity_bytes: 10, max_payload_bytes: 11 } }\n';
  assert.match(messageOf(sizes), /may not be more than capacity_bytes/);
});

test('text that is not YAML, or not one mapping, is refused with its place', () => {
  assert.match(messageOf('pool: [1\nlog: {}\n'), /^config\.yaml:\d+:\d+: /);
  assert.match(messageOf('pool: {}\npool: {}\n'), /^config\.yaml:2:1: Map keys must be unique/);
  assert.match(messageOf('- a\n'), /^config\.yaml:1:1: expected keys/);
  assert.match(messageOf('pool: {}\n---\nlog: {}\n'), /one document only/);
  assert.match(messageOf('1: 2\n'), /^config\.yaml:1:1: /);
});

test('aliases neither multiply nor tie two sections together', () => {
  const bomb = ['a: &a [x, x, x, x, x, x, x, x, x]'];
  for (const name of 'bcdefgh') {
    const previous = String.fromCharCode(name.charCodeAt(0) - 1);
    bomb.push(`${name}: &${name} [${Array(9).fill(`*${previous}`).join(', ')}]`);
  }
  assert.match(messageOf(bomb.join('\n')), /too many aliases/);
  const shared = 'orchestrator: { queue: &empty {}, retry: *empty }\n';
  assert.deepEqual(loadConfig({ text: shared }), defaultConfig());
});

test('a text never appears in a message, since it may be a secret in the wrong line', () => {
  const texts = [
    'pool: { timeout: hunter2 }\n',
    'pool: hunter2\n',
    'log: { level: hunter2 }\n',
    'pool: { url: "ftp://hunter2" }',
    'pool: { url: "http://user:hunter2@host" }',
    'orchestrator: { pool_managers: ["http://user:hunter2@host"] }',
    'backends: { commands: [{ name: a, types: { t: { argv: ["hunter2"], env: 5 } } }] }',
    'pool: { url: "hunter2',
    'pool: { url: "\\qhunter2" }',
    'pool: [hunter2, { ]',
    'pool: @hunter2',
    'pool: *hunter2',
    'pool: !hunter2 x',
    'pool: !!hunter2 [x]',
    'pool: | hunter2\n  x',
    'pool: x\n} hunter2',
    '%hunter2\n---\n',
    '- hunter2',
    'hunter2',
  ];
  for (const text of texts) assert.doesNotMatch(messageOf(text), /hunter2/, text);
});
