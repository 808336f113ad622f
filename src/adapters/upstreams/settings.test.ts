import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import type { UpstreamConfig } from '../../config/upstreams.ts';
import { orderOf, upstreamSettings } from './settings.ts';

const HERE = { variables: { KEY: ' sk-1 ' }, host: '127.0.0.1', port: 8080, taken: ['shell'] };
const settings = (...configured: UpstreamConfig[]) => upstreamSettings(configured, HERE);

test('an upstream with a key is paid, unless the configuration says otherwise', () => {
  const [free, paid, both] = settings(
    { url: 'http://a' },
    { url: 'http://b', key_env: 'KEY' },
    { url: 'http://c', key_env: 'KEY', paid: false },
  );
  assert.deepEqual([free?.paid, paid?.paid, both?.paid], [false, true, false]);
  assert.equal(paid && orderOf(paid).key, 'sk-1');
  assert.ok(!inspect(paid, { depth: 9 }).includes('sk-1') && !JSON.stringify(paid).includes('sk-1'));
});

test('a key that is missing, a name that is taken and the own address are refused', () => {
  assert.throws(() => settings({ url: 'http://a', key_env: 'NONE' }), /NONE is not set/);
  assert.throws(
    () => upstreamSettings([{ url: 'http://a', key_env: 'KEY' }], { ...HERE, variables: { KEY: 'a\nb' } }),
    /does not hold a key/,
  );
  assert.throws(() => settings({ url: 'http://a', name: 'shell' }), /two backends would be called "shell"/);
  assert.throws(() => settings({ url: 'http://a', name: 'x' }, { url: 'http://b', name: 'x' }), /"x"/);
  assert.equal(settings({ url: 'http://a' }, { url: 'http://a/v1' }).length, 1);
  for (const url of ['http://127.0.0.1:8080', 'http://localhost:8080/v1', 'http://[::1]:8080'])
    assert.throws(() => settings({ url }), /this server itself/, url);
  assert.equal(settings({ url: 'http://127.0.0.1:8081' }).length, 1);
  const everywhere = { ...HERE, host: '0.0.0.0' };
  assert.throws(() => upstreamSettings([{ url: 'http://127.0.0.1:8080' }], everywhere), /itself/);
});
