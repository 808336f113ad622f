import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { loadConfig } from '../../config/load.ts';
import { type GatewaySettings, gatewaySettings, type OwnGateway, seatsOrder } from './settings.ts';

const SEAT = { name: 'a', driver: 'openai', key_env: 'KEY', models: { big: 'gpt-5' } };

function settings(
  config: object,
  variables: Record<string, string> = { KEY: ' sk-1 ' },
): GatewaySettings | undefined {
  return gatewaySettings(loadConfig({ text: JSON.stringify(config) }), { variables, taken: ['shell'] });
}

const own = (seat: object, gateway: object = {}, variables?: Record<string, string>): OwnGateway =>
  settings({ gateway: { ...gateway, seats: [seat] } }, variables) as OwnGateway;

test('[FANO-6] [FANO-11] the order has the seats, twice jit_poll_interval, and pool.timeout', () => {
  const config = {
    gateway: { seats: [SEAT] },
    orchestrator: { scheduler: { jit_poll_interval: 0.25 } },
    pool: { timeout: 7 },
  };
  assert.deepEqual(seatsOrder(settings(config) as OwnGateway), {
    seats: [
      {
        name: 'a',
        driver: 'openai-chat',
        url: 'https://api.openai.com',
        key: 'sk-1',
        slots: 1,
        models: { big: 'gpt-5' },
        keep: true,
        preempt: false,
      },
    ],
    reservation_ms: 500,
    timeout_ms: 7000,
  });
  const { reservation_ms, timeout_ms } = seatsOrder(own(SEAT));
  assert.deepEqual([reservation_ms, timeout_ms], [2000, 3_600_000]);
});

test('a key is shown nowhere but in the order', () => {
  const found = own(SEAT);
  assert.ok(!inspect(found, { depth: 9 }).includes('sk-1') && !JSON.stringify(found).includes('sk-1'));
});

test('a key may stand in a file; one that others can read is warned of', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-key-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const key_file = join(folder, 'key');
  const { key_env: _, ...seat } = SEAT;
  assert.throws(() => own({ ...seat, key_file }), {
    code: 'CONFIG_INVALID',
    message: /cannot be read \(ENOENT\)/,
    details: { field: 'gateway.seats[0].key_file' },
  });
  writeFileSync(key_file, 'sk-2\n', { mode: 0o600 });
  const found = own({ ...seat, key_file });
  assert.deepEqual([seatsOrder(found).seats[0]?.key, found.openKeyFiles], ['sk-2', []]);
  chmodSync(key_file, 0o644);
  assert.deepEqual(own({ ...seat, key_file }).openKeyFiles, [key_file]);
  writeFileSync(key_file, '\n');
  assert.throws(() => own({ ...seat, key_file }), /is empty/);
});

test('a missing key, a taken name and an open address are refused with their field', () => {
  const refused = (run: () => unknown, field: string, message: RegExp): void =>
    assert.throws(run, { code: 'CONFIG_INVALID', message, details: { field } });
  refused(() => own(SEAT, {}, {}), 'gateway.seats[0].key_env', /KEY is not set/);
  refused(() => own({ ...SEAT, key_env: undefined }), 'gateway.seats[0]', /set key_env or key_file/);
  refused(() => own({ ...SEAT, name: 'shell' }), 'gateway.seats[0].name', /rename the seat/);
  refused(
    () => own(SEAT, { bind_addr: '0.0.0.0:1' }),
    'gateway.bind_addr',
    /other machines.*set ORCHD_GATEWAY_TOKEN/,
  );
  const keyless = own({ ...SEAT, key_env: undefined, url: 'http://10.0.0.1:8000/v1' });
  assert.deepEqual([keyless.seats[0]?.url, keyless.seats[0]?.key], ['http://10.0.0.1:8000', undefined]);
});

test('pool.url is used with the token of the environment, and without it nothing is', () => {
  const found = settings({ pool: { url: 'http://gw:8000' } }, { ORCHD_GATEWAY_TOKEN: 't' });
  assert.ok(found?.is === 'foreign');
  assert.deepEqual([found.url, found.token?.reveal(), found.timeoutMs], ['http://gw:8000', 't', 3_600_000]);
  assert.equal(settings({}), undefined);
});

test('a browser has its page with defaults, paths that hold in every folder, and no key', () => {
  const selectors = { input: '#a', send: '#b', answer: '.c' };
  const url = 'https://chat.example/v1?model=x';
  const seat = {
    name: 'p',
    driver: 'browser',
    url,
    models: ['chat'],
    selectors,
    profile: 'here',
    headless: false,
  };
  const [order] = seatsOrder(own(seat)).seats;
  assert.deepEqual([order?.driver, order?.url, order?.key], ['browser', url, undefined]);
  assert.deepEqual(order?.page, {
    selectors,
    profile: join(process.cwd(), 'here'),
    args: [],
    headless: false,
    stream: true,
    load_timeout_ms: 30_000,
    answer_timeout_ms: 900_000,
    settle_ms: 1500,
  });
});
