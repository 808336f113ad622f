import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkOf } from './connections.ts';

test('connections are counted by IPv4 address and by IPv6 network', () => {
  const cases: Record<string, string> = {
    '10.0.0.7': '10.0.0.7',
    '::ffff:10.0.0.7': '10.0.0.7',
    '::FFFF:127.0.0.1': '127.0.0.1',
    '::1': '::1',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1:2',
    '2001:db8:1:2::9': '2001:db8:1:2',
    '2001:db8::9': '2001:db8:0:0',
    'fe80::1%eth0': 'fe80:0:0:0',
    '::': '0:0:0:0',
    '': '',
  };
  for (const [address, network] of Object.entries(cases)) assert.equal(networkOf(address), network, address);
});
