import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readMessage } from './message.ts';
import { CAPABILITIES_KEY, CURRENT_VERSION, EARLIER_VERSION, VERSION_KEY } from './protocol.ts';
import { headerFault } from './request-headers.ts';

const meta = { [VERSION_KEY]: CURRENT_VERSION, [CAPABILITIES_KEY]: {} };
const call = readMessage({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'get_job', _meta: meta },
});
const ping = readMessage({ jsonrpc: '2.0', id: 1, method: 'ping' });

const good = { 'mcp-protocol-version': CURRENT_VERSION, 'mcp-method': 'tools/call', 'mcp-name': 'get_job' };

test('in the current version the headers must say what the body says', () => {
  assert.equal(headerFault(call, good), undefined);
  const encoded = `=?base64?${Buffer.from('get_job').toString('base64')}?=`;
  assert.equal(headerFault(call, { ...good, 'mcp-name': encoded }), undefined);
  for (const name of Object.keys(good))
    for (const wrong of [undefined, 'other', ['get_job', 'get_job']])
      assert.equal(headerFault(call, { ...good, [name]: wrong })?.code, -32020, name);
});

test('the version before it has one header, which may be missing', () => {
  assert.equal(headerFault(ping, {}), undefined);
  assert.equal(headerFault(ping, { 'mcp-protocol-version': EARLIER_VERSION }), undefined);
  assert.equal(headerFault(ping, { 'mcp-protocol-version': '2024-11-05' })?.code, -32022);
  assert.equal(headerFault(ping, { 'mcp-protocol-version': CURRENT_VERSION })?.code, -32602);
});
