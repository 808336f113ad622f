import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gate } from './gate.ts';
import { nodeHeaders, ON_BEHALF_OF } from './nodes.ts';

const SECRET = 'a'.repeat(64);
const CALLER = { name: 'ünïcode ☃', role: 'read', tenant: 'acme' } as const;

const gateWith = (nodeSecret?: () => string): Gate =>
  new Gate({
    hosts: ['localhost'],
    origins: [],
    tokens: () => [],
    openWithoutTokens: true,
    ...(nodeSecret && { nodeSecret }),
  });

function credentialsOf(headers: Record<string, string>) {
  const { authorization } = headers;
  return { host: 'localhost', origin: undefined, authorization, onBehalfOf: headers[ON_BEHALF_OF] };
}

test('a node asks in the name of its caller, with no more rights than that one has', () => {
  const gate = gateWith(() => SECRET);
  const given = credentialsOf(nodeHeaders(SECRET, CALLER));
  assert.deepEqual(gate.admit(given, 'read'), { ...CALLER, fromNode: true });
  assert.throws(() => gate.admit(given, 'submit'), { code: 'FORBIDDEN' });
});

test('whoever does not have the secret is no node, also where everything is open', () => {
  const good = nodeHeaders(SECRET, CALLER);
  const bad = [
    [gateWith(() => SECRET), { ...good, authorization: `Node ${SECRET.slice(1)}b` }],
    [gateWith(() => SECRET), { ...good, authorization: 'Node ' }],
    [gateWith(() => ''), { ...good, authorization: 'Node ' }],
    [gateWith(), good],
    [gateWith(() => SECRET), { authorization: good['authorization'] as string }],
    [gateWith(() => SECRET), { ...good, [ON_BEHALF_OF]: 'nonsense' }],
    [gateWith(() => SECRET), nodeHeaders(SECRET, { ...CALLER, role: 'king' as never })],
  ] as const;
  for (const [at, [gate, headers]] of bad.entries())
    assert.throws(
      () => gate.admit(credentialsOf({ ...headers }), 'read'),
      { code: 'UNAUTHORIZED' },
      String(at),
    );
});

test('to say whom one asks for is of no use without the secret', () => {
  const gate = gateWith(() => SECRET);
  const { [ON_BEHALF_OF]: onBehalfOf } = nodeHeaders(SECRET, { ...CALLER, tenant: 'other' });
  const identity = gate.admit(
    { host: 'localhost', origin: undefined, authorization: undefined, onBehalfOf },
    'read',
  );
  assert.deepEqual([identity.name, identity.tenant, identity.fromNode], ['local', 'default', undefined]);
});
