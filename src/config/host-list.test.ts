import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HostList, isHostEntry } from './host-list.ts';

test('a host is on the list by its name, its address or the range of its address', () => {
  const list = new HostList(['GPU.example', '10.0.0.0/8', '192.0.2.7', 'fd00:1::/32', '::1']);
  for (const host of ['gpu.example', 'gpu.example.', '10.1.2.3', '192.0.2.7', '[fd00:1::9]', '[::1]', '::1'])
    assert.ok(list.has(host), host);
  for (const host of ['x.gpu.example', 'gpu.example.org', '11.0.0.1', '192.0.2.70', '[fd00:2::9]', ''])
    assert.ok(!list.has(host), host);
  assert.ok(list.has('::ffff:10.1.2.3'), 'an IPv4 address that is written as IPv6');
});

test('what is neither a name nor an address nor a range cannot be an entry', () => {
  for (const entry of ['gpu-1', 'gpu.example', '10.0.0.1', '10.0.0.0/8', '[::1]', 'fd00::/8'])
    assert.ok(isHostEntry(entry), entry);
  for (const entry of [
    '',
    '*',
    '*.example',
    'http://gpu',
    'gpu:9200',
    '10.0.0.0/33',
    '10.0.0.0/',
    'gpu/8',
    'a/b/c',
  ])
    assert.ok(!isHostEntry(entry), entry);
});
