import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { seatOrder } from '../../../test/fakes/fake-driver.ts';
import { GatewayCoreKit, turns } from '../../../test/fakes/gateway-core-kit.ts';
import { createLogger } from '../../kit/logger.ts';
import type { SeatOrder } from '../../model/gateway-wire.ts';
import { Gateway } from './gateway.ts';

const HOUR_MS = 3_600_000;
const QUIET = createLogger({ write: () => undefined, now: () => 0 });

interface Started {
  readonly kit: GatewayCoreKit;
  readonly gateway: Gateway;
  isEnded(): boolean;
  post(path: string, body: object): Promise<number>;
}

/** A gateway on a real port, with the clock and the disk of the kit. */
async function started(t: TestContext, launch?: string): Promise<Started> {
  const kit = new GatewayCoreKit();
  const { env, provider } = kit;
  const drivers = provider.driverOf;
  const gateway = new Gateway({
    env,
    logger: QUIET,
    folder: '/g',
    host: '127.0.0.1',
    port: 0,
    drivers,
    launch,
  });
  t.after(() => gateway.stop());
  await gateway.start();
  gateway.follow({ seats: [seatOrder('s')], reservation_ms: 1000, timeout_ms: 48 * HOUR_MS });
  let hasEnded = false;
  void gateway.ended.then(() => {
    hasEnded = true;
  });
  const headers = { 'content-type': 'application/json' };
  const post = async (path: string, body: object): Promise<number> =>
    (await fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) })).status;
  return { kit, gateway, isEnded: () => hasEnded, post };
}

test('a gateway that other machines can reach needs a token', () => {
  const { env, provider } = new GatewayCoreKit();
  const options = { env, logger: QUIET, folder: '/g', port: 0, drivers: provider.driverOf };
  assert.throws(() => new Gateway({ ...options, host: '0.0.0.0' }), {
    code: 'CONFIG_INVALID',
    message: /set ORCHD_GATEWAY_TOKEN/,
  });
});

test('a gateway that a brain has started ends after ten minutes without one; one that stands alone does not', async (t) => {
  const launched = await started(t, 'launch');
  const alone = await started(t);
  for (const { kit } of [launched, alone]) await kit.pass(9 * 60_000);
  assert.equal(launched.isEnded(), false);
  for (const { kit } of [launched, alone]) await kit.pass(2 * 60_000);
  assert.deepEqual([launched.isEnded(), alone.isEnded()], [true, false]);
});

test('a gateway without a brain goes on while something runs or waits, and keeps results for a day', async (t) => {
  const { kit, isEnded, post } = await started(t, 'launch');
  const request = { backend: 's', payload: 'x', idempotency_token: '1' };
  assert.equal(await post('/submit_immediate', request), 200);
  assert.equal(await post('/job/submit', { backend: 's', payload: 'y' }), 202);
  await kit.pass(HOUR_MS);
  assert.equal(isEnded(), false);
  for (const call of [0, 1]) {
    await kit.provider.called(call + 1);
    kit.provider.calls[call]?.succeed();
    await turns();
    await kit.pass(HOUR_MS);
    assert.equal(isEnded(), false);
  }
  await kit.pass(24 * HOUR_MS);
  assert.equal(isEnded(), true);
});

test('a gateway whose disk has failed says so, and tells nothing that is not durable', async (t) => {
  const { kit, gateway, post } = await started(t);
  kit.faulty.failsSyncs = true;
  assert.equal(await post('/submit_immediate', { backend: 's', payload: 'x', idempotency_token: '1' }), 503);
  assert.equal((await gateway.failed).code, 'STORE_FAILED');
  assert.deepEqual(kit.provider.prompts, []);
});

test('callers without a token cannot order a browser, which would run a program of their choice', async (t) => {
  const { gateway } = await started(t);
  const page = {
    selectors: { input: '#a', send: '#b', answer: '.c' },
    executable: '/tmp/mine',
    args: [],
    headless: true,
    stream: true,
    load_timeout_ms: 1,
    answer_timeout_ms: 1,
    settle_ms: 1,
  };
  const order = (seat: SeatOrder) => ({ seats: [seat], reservation_ms: 1000, timeout_ms: 1000 });
  const put = async (seat: SeatOrder): Promise<number> => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify(order(seat));
    return (await fetch(`${gateway.url}/seats`, { method: 'PUT', headers, body })).status;
  };
  assert.equal(await put(seatOrder('s', { driver: 'browser', page })), 403);
  assert.equal(await put(seatOrder('s')), 204);
  gateway.follow(order(seatOrder('s', { driver: 'browser', page })));
});
