import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverOf } from './gateway.ts';
import { defaultConfig, loadConfig } from './load.ts';

const seats = (...entries: object[]) =>
  loadConfig({ text: `gateway: { seats: ${JSON.stringify(entries)} }`, label: 'c.yaml' }).gateway.seats;
const SEAT = { name: 'a', driver: 'openai', models: ['gpt-5'] };

test('[FANO-11] without seats and pool.url there is no gateway, and its address has a default', () => {
  const { gateway, pool } = defaultConfig();
  assert.deepEqual(gateway, { host: '127.0.0.1', port: 8000, allowedHosts: [], seats: [] });
  assert.equal(pool.url, undefined);
});

test('[FANO-11] pool.url has an effect as soon as it is set, also to its default', () => {
  const url = 'http://localhost:8000';
  assert.equal(loadConfig({ text: `pool: { url: "${url}/" }` }).pool.url, url);
  assert.equal(loadConfig({ env: { ORCHD_POOL_URL: url } }).pool.url, url);
  assert.equal(loadConfig({ text: 'pool: { timeout: 5 }' }).pool.url, undefined);
});

test('a seat names its provider, and how that is called', () => {
  assert.equal(driverOf({ driver: 'openai' }), 'openai-chat');
  assert.equal(driverOf({ driver: 'openai', mode: 'responses' }), 'openai-responses');
  assert.equal(driverOf({ driver: 'anthropic' }), 'anthropic-messages');
  assert.equal(driverOf({ driver: 'anthropic', mode: 'batches' }), 'anthropic-batches');
  assert.equal(driverOf({ driver: 'gemini' }), 'gemini-stream');
  assert.equal(driverOf({ driver: 'gemini', mode: 'generate' }), 'gemini-generate');
  assert.deepEqual(seats({ ...SEAT, driver: 'gemini', mode: 'stream' })[0]?.mode, 'stream');
  assert.throws(() => seats({ ...SEAT, mode: 'batches' }), {
    code: 'CONFIG_INVALID',
    message:
      /^c\.yaml:1:.*: gateway\.seats\[0\]\.mode: the driver openai has no mode batches: choose chat or responses$/,
  });
});

test('models are a list, or a map from the names that callers use', () => {
  assert.deepEqual(seats(SEAT)[0]?.models, ['gpt-5']);
  assert.deepEqual(seats({ ...SEAT, models: { big: 'gpt-5' } })[0]?.models, { big: 'gpt-5' });
  for (const models of [[], {}, 'gpt-5', [''], { '': 'x' }])
    assert.throws(() => seats({ ...SEAT, models }), /gateway\.seats\[0\]\.models: expected a list of models/);
});

test('what is missing, unknown or given twice is said with its place', () => {
  assert.throws(() => seats({ driver: 'openai' }), /seats\[0\]: missing `name`\n.*missing `models`/);
  assert.throws(() => seats({ ...SEAT, key: 'sk-1' }), /seats\[0\]\.key: unknown key; did you mean/);
  assert.throws(() => seats(SEAT, SEAT), /seats\[1\]\.name: two seats are called "a"/);
  assert.throws(() => seats({ ...SEAT, key_env: 'A', key_file: 'b' }), /remove key_file or key_env/);
});

test('a key in the wrong place is refused and not repeated', () => {
  for (const wrong of [{ key_env: 'sk-secret' }, { key: 'sk-secret' }, { url: 'https://x:sk-secret@host' }])
    assert.throws(
      () => seats({ ...SEAT, ...wrong }),
      ({ message }: Error) => !message.includes('secret'),
    );
});

test('seats and pool.url together are refused, with which of them to remove', () => {
  const text = `gateway: { seats: [${JSON.stringify(SEAT)}] }\npool: { url: http://other:8000 }\n`;
  assert.throws(() => loadConfig({ text, label: 'c.yaml' }), {
    code: 'CONFIG_INVALID',
    message: /^c\.yaml:2:\d+: pool\.url: .*remove pool\.url to run the seats here, or gateway\.seats/,
  });
});

test('a browser names its page and its selectors, and has neither a key nor the mode of an API', () => {
  const selectors = { input: '#a', send: '#b', answer: '.c' };
  const page = {
    name: 'p',
    driver: 'browser',
    url: 'https://chat.example/?model=x',
    models: ['chat'],
    selectors,
  };
  assert.equal(driverOf({ driver: 'browser' }), 'browser');
  assert.deepEqual(seats(page)[0]?.selectors, selectors);
  const { url: _, selectors: __, ...bare } = page;
  assert.throws(() => seats(bare), /needs `url`\n.*needs `selectors`/);
  assert.throws(() => seats({ ...page, selectors: { input: '#a' } }), /missing `send`/);
  assert.throws(
    () => seats({ ...page, key_env: 'KEY' }),
    /seats\[0\]\.key_env: the driver browser has no key/,
  );
  assert.throws(() => seats({ ...page, mode: 'chat' }), /the driver browser has no mode chat/);
  assert.throws(
    () => seats({ ...page, url: 'https://me:secret@chat.example/' }),
    /seats\[0\]\.url: expected/,
  );
  assert.throws(() => seats({ ...SEAT, headless: false }), /headless: only the driver browser has headless/);
});
