import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClientMessage, progressTokenOf, readMessage } from './message.ts';
import { CAPABILITIES_KEY, CURRENT_VERSION, EARLIER_VERSION, VERSION_KEY } from './protocol.ts';

const current = (method = 'tools/list') => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: { _meta: { [VERSION_KEY]: CURRENT_VERSION, [CAPABILITIES_KEY]: {} } },
});

function faultOf(value: unknown): readonly [unknown, number, string] {
  const message: ClientMessage = readMessage(value);
  assert.ok(message.is === 'invalid', JSON.stringify(message));
  return [message.id, message.error.code, message.error.message];
}

test('a request is of the version that it names, and of the one before it if it names none', () => {
  const now = readMessage(current());
  assert.deepEqual([now.is, now.is === 'request' && now.version], ['request', CURRENT_VERSION]);
  const before = readMessage({ jsonrpc: '2.0', id: 'a', method: 'ping' });
  assert.deepEqual(before, { is: 'request', id: 'a', method: 'ping', params: {}, version: EARLIER_VERSION });
});

test('a message without an id is a notification, and one without a method an answer', () => {
  assert.equal(readMessage({ jsonrpc: '2.0', method: 'notifications/initialized' }).is, 'notification');
  assert.equal(readMessage({ jsonrpc: '2.0', id: 1, result: {} }).is, 'response');
  assert.equal(readMessage({ jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } }).is, 'response');
});

test('what is no message of the protocol is refused, with the id of the request where it has one', () => {
  for (const value of [null, 5, 'text', {}, { method: 'ping', id: 1 }, { jsonrpc: '1.0', method: 'ping' }])
    assert.equal(faultOf(value)[1], -32600, JSON.stringify(value));
  assert.deepEqual(faultOf({ jsonrpc: '2.0', id: 7, method: 5 }).slice(0, 2), [7, -32600]);
  for (const params of [5, [], null])
    assert.deepEqual(faultOf({ jsonrpc: '2.0', id: 7, method: 'ping', params }).slice(0, 2), [7, -32602]);
  for (const id of [null, 1.5, {}, true, 'x'.repeat(1001), 2 ** 60])
    assert.deepEqual(faultOf({ jsonrpc: '2.0', id, method: 'ping' }).slice(0, 2), [null, -32600]);
});

test('a batch is refused, be it empty', () => {
  for (const batch of [[], [current()], [{ jsonrpc: '2.0', id: 1, method: 'ping' }]]) {
    const [id, code, message] = faultOf(batch);
    assert.deepEqual([id, code], [null, -32600]);
    assert.match(message, /one message at a time/);
  }
});

test('a version that is not supported is refused with those that are', () => {
  const message = readMessage({
    ...current(),
    params: { _meta: { [VERSION_KEY]: '2099-01-01', [CAPABILITIES_KEY]: {} } },
  });
  assert.ok(message.is === 'invalid');
  assert.deepEqual(message.error.code, -32022);
  assert.deepEqual(message.error.data, {
    supported: [CURRENT_VERSION, EARLIER_VERSION],
    requested: '2099-01-01',
  });
  const meta = { [VERSION_KEY]: 5, [CAPABILITIES_KEY]: {} };
  assert.equal(faultOf({ ...current(), params: { _meta: meta } })[1], -32602);
  assert.equal(faultOf({ ...current(), params: { _meta: { [VERSION_KEY]: CURRENT_VERSION } } })[1], -32602);
});

test('a request takes progress if it has a token for it', () => {
  const tokenOf = (token: unknown) => progressTokenOf({ params: { _meta: { progressToken: token } } });
  assert.deepEqual([tokenOf('a'), tokenOf(0), tokenOf(null), tokenOf({})], ['a', 0, undefined, undefined]);
  assert.equal(progressTokenOf({ params: {} }), undefined);
});
