import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AccessGate } from './access-gate.ts';
import { nodeHeaders, ON_BEHALF_OF } from './nodes.ts';

const SECRET = 'a'.repeat(64);
const CALLER = { name: 'ünïcode ☃', role: 'read', tenant: 'acme' } as const;

const gateWith = (clusterSecret?: () => string): AccessGate =>
  new AccessGate({
    allowedHosts: ['localhost'],
    allowedOrigins: [],
    tokens: () => [],
    openWithoutTokens: true,
    ...(clusterSecret && { clusterSecret }),
  });

function credentialsOf(headers: Record<string, string>) {
  const { authorization } = headers;
  return { host: 'localhost', origin: undefined, authorization, onBehalfOf: headers[ON_BEHALF_OF] };
}

test('a node forwards a request with the rights of its caller and no more', () => {
  const gate = gateWith(() => SECRET);
  const given = credentialsOf(nodeHeaders(SECRET, CALLER));
  assert.deepEqual(gate.admit(given, { role: 'read' }), { ...CALLER, fromNode: true });
  assert.throws(() => gate.admit(given, { role: 'submit' }), { code: 'FORBIDDEN' });
});

test('without the secret a request is not accepted as from a node, even on a server without tokens', () => {
  const good = nodeHeaders(SECRET, CALLER);
  const bad = [
    [gateWith(() => SECRET), { ...good, authorization: `Node ${SECRET.slice(1)}b` }],
    [gateWith(() => SECRET), { ...good, authorization: 'Node ' }],
    [gateWith(), good],
    [gateWith(() => SECRET), { authorization: good['authorization'] as string }],
    [gateWith(() => SECRET), { ...good, [ON_BEHALF_OF]: 'nonsense' }],
    [gateWith(() => SECRET), nodeHeaders(SECRET, { ...CALLER, role: 'king' as never })],
    [gateWith(() => SECRET), nodeHeaders(SECRET, { ...CALLER, models: 'm' as never })],
  ] as const;
  for (const [at, [gate, headers]] of bad.entries())
    assert.throws(
      () => gate.admit(credentialsOf({ ...headers }), { role: 'read' }),
      { code: 'UNAUTHORIZED' },
      String(at),
    );
});

test('a forwarded caller keeps its token, its models and its tenant, which is refused where a route is global', () => {
  const gate = gateWith(() => SECRET);
  const models = ['m', 'org/*'];
  const caller = { name: 'eve', role: 'admin', tenant: 'lab', tokenId: '0123abcd', models } as const;
  const given = credentialsOf({ ...nodeHeaders(SECRET, caller) });
  assert.deepEqual(gate.admit(given, { role: 'admin' }), { ...caller, fromNode: true });
  assert.throws(() => gate.admit(given, { role: 'read', scope: 'global' }), { code: 'FORBIDDEN' });
});

test('the header with the identity of the caller is ignored without the secret', () => {
  const gate = gateWith(() => SECRET);
  const { [ON_BEHALF_OF]: onBehalfOf } = nodeHeaders(SECRET, { ...CALLER, tenant: 'other' });
  const identity = gate.admit(
    { host: 'localhost', origin: undefined, authorization: undefined, onBehalfOf },
    { role: 'read' },
  );
  assert.deepEqual([identity.name, identity.tenant, identity.fromNode], ['local', 'default', undefined]);
});

test('a node that has not read the secret of its cluster yet asks another node to try again, and accepts nothing', () => {
  const gate = gateWith(() => '');
  for (const authorization of [`Node ${SECRET}`, 'Node '])
    assert.throws(
      () => gate.admit(credentialsOf({ ...nodeHeaders(SECRET, CALLER), authorization }), { role: 'read' }),
      {
        code: 'NO_LEADER',
        retriable: true,
      },
    );
});
