import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePoolConfig } from './config.ts';
import { allowsUri, settingsOf } from './settings.ts';

test('a file says what differs from the defaults', () => {
  const config = parsePoolConfig(
    'pool_id: box\nhost: 0.0.0.0\nadvertise: gpu-box\nengines: [{match: "a*", engine: x}]',
    'f',
  );
  const settings = settingsOf(config, { HF_HOME: '/cache' });
  assert.deepEqual(
    [settings.poolId, settings.port, settings.reachedAt, settings.workerHost, settings.isLocal],
    ['box', 9200, 'gpu-box', 'gpu-box', false],
  );
  assert.equal(settings.hubCache, '/cache/hub');
  assert.equal(settings.times.startTimeoutMs, 60_000);
  assert.ok(settings.gateHosts.includes('gpu-box'));
  assert.deepEqual(parsePoolConfig('', 'f'), {});
});

test('a fault is named with its place, and no value is repeated', () => {
  for (const [text, says] of [
    ['pool_id: "../x"', /^f:1:10: "pool_id" must match/],
    ['port: 1\nslots: 0', /^f:2:8: "slots" must be >= 1/],
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

test('a worker is reached at the top of a server of a host that is allowed, and nowhere else', () => {
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
