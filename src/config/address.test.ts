import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOrigin } from './address.ts';
import { loadConfig } from './load.ts';

test('an origin is what a browser sends as one', () => {
  const origins = [
    'https://tools.example',
    'http://localhost:3000',
    'http://[::1]:8080',
    'https://xn--bcher-kva.example',
    'tauri://localhost',
    'chrome-extension://abcdefghijklmnop',
  ];
  for (const text of origins) assert.ok(isOrigin(text), text);
  const others = [
    'not an origin',
    'tools.example',
    'https://tools.example/',
    'https://tools.example/page',
    'https://Tools.example',
    'https://tools.example:443',
    'https://user@tools.example',
    'https://tools.example?x',
    'https://*',
    'https://bücher.example',
    '*',
    'null',
    'file:///page',
    'mailto:me@tools.example',
    'tauri://localhost/',
  ];
  for (const text of others) assert.ok(!isOrigin(text), text);
});

test('a variable with something else than origins is refused with its name', () => {
  const env = { ORCHD_SERVER_ALLOWED_ORIGINS: 'https://a.example, not an origin' };
  assert.throws(() => loadConfig({ env }), {
    code: 'CONFIG_INVALID',
    message: /ORCHD_SERVER_ALLOWED_ORIGINS/,
  });
  const { server } = loadConfig({
    env: { ORCHD_SERVER_ALLOWED_ORIGINS: 'https://a.example, http://b.example:81' },
  });
  assert.deepEqual(server.allowedOrigins, ['https://a.example', 'http://b.example:81']);
});
