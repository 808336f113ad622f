import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePoolConfig } from './config.ts';
import { allowsUri, settingsOf } from './settings.ts';

test('settings that the file leaves out have their defaults', () => {
  const config = parsePoolConfig(
    'pool_id: box\nhost: 0.0.0.0\nadvertise: gpu-box\nengines: [{match: "a*", engine: x}]',
    'f',
  );
  const settings = settingsOf(config, { HF_HOME: '/cache' });
  assert.deepEqual(
    [settings.poolId, settings.port, settings.advertisedHost, settings.workerHost, settings.isLocal],
    ['box', 9200, 'gpu-box', 'gpu-box', false],
  );
  assert.equal(settings.hubCache, '/cache/hub');
  assert.equal(settings.times.startTimeoutMs, 60_000);
  assert.ok(settings.gateHosts.includes('gpu-box'));
  assert.deepEqual(parsePoolConfig('', 'f'), {});
});

test('an error names its position in the file, and repeats no value', () => {
  for (const [text, says] of [
    ['pool_id: "../x"', /^f:1:10: "pool_id" must match/],
    ['port: 1\nslots: 0', /^f:2:8: "slots" must be at least 1/],
    ['secret_of_mine: hunter2', /^f:.*secret_of_mine/],
    ['brain: ftp://user:hunter2@x', /"brain" and "hf_endpoint" are http or https URLs/],
    ['- a', /expected keys/],
    ['a: [', /^f:1/],
  ] as const) {
    assert.throws(
      () => parsePoolConfig(text, 'f'),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'CONFIG_INVALID');
        assert.match(error.message, says);
        assert.doesNotMatch(error.message, /hunter2/);
        return true;
      },
      text,
    );
  }
});

test('a worker URI must be plain HTTP on an allowed host, without a path', () => {
  const { workerHosts } = settingsOf({ host: '10.0.0.5', allowed_worker_hosts: ['fd00::1'] }, {});
  for (const uri of [
    'http://127.0.0.1:1',
    'http://localhost:80/',
    'http://10.0.0.5:9',
    'http://[fd00::1]:7',
  ]) {
    assert.ok(allowsUri(uri, workerHosts), uri);
  }
  for (const uri of [
    'http://192.0.2.1:1',
    'http://127.0.0.1.evil.net:1',
    'http://127.0.0.1:1/path',
    'http://127.0.0.1:1/?q',
    'http://127.0.0.1@evil.net',
    'http://user:pass@127.0.0.1:1',
    'https://127.0.0.1:1',
    'file:///etc/passwd',
    '//127.0.0.1',
    'http://',
  ]) {
    assert.ok(!allowsUri(uri, workerHosts), uri);
  }
});
