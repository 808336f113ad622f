/** The gateway over real HTTP, in a process of its own that is killed. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { GATEWAY_CRASHPOINTS } from '../../src/kit/crashpoint.ts';
import { GatewayProcess, seatOf, tagProvider } from './gateway-process.ts';

test('[FANO-5] is it busy, submit, list, kill: a request runs at once or is refused', async (t) => {
  const provider = await tagProvider(t);
  const gateway = await GatewayProcess.start(t);
  assert.equal((await gateway.submit('a:1')).body.error.code, 'WORKER_BUSY', 'it has no seats yet');
  await gateway.follow([seatOf(provider)]);
  const busy = async () => (await gateway.line.ask('GET', '/backend/s/busy')).body;
  assert.deepEqual(await busy(), { busy: false, high_priority_pending: false });

  const stream = await gateway.stream('a:1', { job_id: 'job-a' });
  const started = await stream.next();
  assert.deepEqual([started.event, started.n, started.data.job_id], ['started', 1, 'job-a']);
  assert.equal((await stream.next()).data.t, 'begun ');
  assert.deepEqual((await gateway.submit('a:1')).body, { request_id: 'a:1', state: 'running' });
  const occupied = { busy: true, reason: 'occupied', retry_after_ms: 30_000, high_priority_pending: false };
  assert.deepEqual(await busy(), occupied, 'to ask leaves no reservation');
  const other = gateway.line.as({ owner: 'other' });
  const refused = await gateway.submit('b:1', {}, other);
  const { code, reason, retry_after_ms } = refused.body.error;
  assert.deepEqual([refused.status, code, reason, retry_after_ms], [503, 'WORKER_BUSY', 'occupied', 30_000]);
  assert.equal((await busy()).high_priority_pending, true);

  const { body: active } = await gateway.line.ask('GET', '/active_requests');
  assert.equal(active.requests.length, 1);
  const { request_id, backend, state, upstream_id, job_id } = active.requests[0];
  assert.deepEqual(
    [request_id, backend, state, upstream_id, job_id],
    ['a:1', 's', 'running', 'call-1', 'job-a'],
  );
  assert.deepEqual((await other.ask('GET', '/active_requests')).body.requests, []);

  provider.release('a:1');
  const end = await stream.until('end');
  assert.equal(end.data.result.text, 'answer to a:1');
  const ended = (await gateway.state('a:1')).body;
  assert.deepEqual([ended.state, ended.backend, ended.outcome.result.text], ['ended', 's', 'answer to a:1']);
  assert.equal((await gateway.line.ask('POST', '/requests/a:1/ack')).status, 204);
  assert.deepEqual((await gateway.line.ask('GET', '/active_requests')).body.requests, []);
  assert.equal((await gateway.submit('a:1')).status, 409);

  assert.equal(
    (await gateway.submit('c:1')).body.error.reason,
    'reserved',
    'the other caller has the next turn',
  );
  assert.equal((await gateway.submit('b:1', {}, other)).status, 200);
  await provider.billed(2);
  assert.equal((await other.ask('POST', '/requests/b:1/kill', {})).body.is, 'stopping');
  await gateway.untilSeats(({ running }) => running === 0);
  const killed = (await other.ask('POST', '/requests/b:1/kill', {})).body;
  assert.deepEqual([killed.is, killed.outcome.ok], ['ended', 'cancelled']);
  assert.equal(
    (await gateway.line.ask('POST', '/requests/never:1/kill', { how: 'bury' })).body.is,
    'tombstoned',
  );
  assert.equal((await gateway.submit('never:1')).status, 410);
  assert.deepEqual(
    provider.bills.map(({ prompt }) => prompt),
    ['a:1', 'b:1'],
  );
});

test('callers without an owner act under one of their own, and only callers with the token are served', async (t) => {
  const provider = await tagProvider(t);
  const gateway = await GatewayProcess.start(t, { token: 'gateway-secret' });
  const line = gateway.line.as({ bearer: 'gateway-secret' });
  assert.equal((await gateway.line.ask('GET', '/health')).body.status, 'starting');
  assert.equal((await gateway.line.ask('GET', '/seats')).status, 401);
  const order = { seats: [seatOf(provider)], reservation_ms: 1000, timeout_ms: 60_000 };
  assert.equal((await line.ask('PUT', '/seats', order)).status, 204);
  const { body: state } = await line.ask('GET', '/seats');
  assert.doesNotMatch(JSON.stringify(state), /"key"/);
  const plain = (path: string, init: RequestInit = {}) =>
    fetch(gateway.url + path, {
      ...init,
      headers: { authorization: 'Bearer gateway-secret', 'content-type': 'application/json' },
    });
  const body = JSON.stringify({ backend: 's', payload: 'Hello', idempotency_token: 'p' });
  assert.equal((await plain('/submit_immediate', { method: 'POST', body })).status, 200);
  await provider.billed(1);
  const active = (await (await plain('/active_requests')).json()) as { requests: { request_id: string }[] };
  assert.deepEqual(
    active.requests.map(({ request_id }) => request_id),
    ['p'],
  );
  assert.deepEqual((await line.ask('GET', '/active_requests')).body.requests, []);
  const foreign = await fetch(`${gateway.url}/seats`, {
    headers: { authorization: 'Bearer gateway-secret', origin: 'http://evil.example' },
  });
  assert.equal(foreign.status, 403);
  const address = JSON.parse(readFileSync(join(gateway.folder, 'address.json'), 'utf8'));
  assert.deepEqual(
    [address.launch, address.uri, address.process.pid],
    ['test', gateway.url, gateway.child.pid],
  );
});

/** What a driver of each kind can find of a call, by where the gateway died. */
const FOUND: Record<string, Record<string, 'answer' | 'unknown'>> = {
  'gateway:after-intent': { token: 'unknown', id: 'unknown', nothing: 'unknown' },
  'gateway:after-upstream-id': { token: 'answer', id: 'answer', nothing: 'unknown' },
  'gateway:first-event': { token: 'answer', id: 'answer', nothing: 'unknown' },
  'gateway:before-result': { token: 'answer', id: 'answer', nothing: 'unknown' },
  'gateway:after-result': { token: 'answer', id: 'answer', nothing: 'answer' },
};
const DRIVERS = { token: 'openai-chat', id: 'openai-responses', nothing: 'anthropic-messages' } as const;

for (const crashAt of GATEWAY_CRASHPOINTS) {
  for (const finds of ['token', 'id', 'nothing'] as const) {
    const found = FOUND[crashAt]?.[finds];
    test(`[FANO-9] the gateway dies at ${crashAt}, calls are found by ${finds}: ${found}, and one bill`, async (t) => {
      const provider = await tagProvider(t);
      provider.answersAtOnce = true;
      const seats = [seatOf(provider, { driver: DRIVERS[finds] })];
      const first = await GatewayProcess.start(t, { crashAt });
      const { registry } = (await first.line.ask('GET', '/seats')).body;
      await first.follow(seats);
      const cut = assert.rejects(first.stream('a:1').then((events) => events.rest()));
      await first.gone;
      await cut;
      const bills = crashAt === 'gateway:after-intent' ? 0 : 1;
      assert.equal(provider.bills.length, bills);

      const second = await GatewayProcess.start(t, { folder: first.folder });
      assert.equal((await second.line.ask('GET', '/active_requests')).body.registry, registry);
      await second.follow(seats);
      const end = await second.ended('a:1');
      assert.ok(end.n > 1_000_000_000, 'the numbers are above all that were told');
      assert.equal(
        end.event === 'end' ? end.data.result.text : end.data.code,
        found === 'answer' ? 'answer to a:1' : 'UNKNOWN_OUTCOME',
      );
      const again = await second.submit('a:1');
      assert.deepEqual(again.body, { request_id: 'a:1', state: 'ended' });
      assert.equal(provider.bills.length, bills, 'nothing was bought again');
      await second.kill();
      const third = await GatewayProcess.start(t, { folder: first.folder });
      assert.deepEqual((await third.state('a:1')).body.outcome.ok, found === 'answer');
      assert.equal((await third.line.as({ epoch: 2 }).ask('GET', '/active_requests')).status, 200);
      await third.kill();
      const fourth = await GatewayProcess.start(t, { folder: first.folder });
      assert.equal(
        (await fourth.state('a:1')).body.error.code,
        'FENCED',
        'an older brain is fenced after a restart',
      );
    });
  }
}

test('jobs of the queue survive the gateway: those that wait run, and the one that ran is resumed', async (t) => {
  const provider = await tagProvider(t);
  const first = await GatewayProcess.start(t);
  await first.follow([seatOf(provider)]);
  const ids = ['j1', 'j2', 'j3'];
  for (const id of ids) {
    const { status } = await first.line.ask('POST', '/job/submit', { backend: 's', payload: id, job_id: id });
    assert.equal(status, 202);
  }
  await first.untilSeats(({ running }) => running === 1);
  await provider.billed(1);
  await first.kill();
  const second = await GatewayProcess.start(t, { folder: first.folder });
  await second.follow([seatOf(provider)]);
  for (const id of ids) provider.release(id);
  await second.untilSeats(({ running, seats }) => running === 0 && seats[0].queued === 0);
  for (const id of ids) {
    const { body } = await second.line.ask('GET', `/job/${id}`);
    assert.deepEqual([body.state, body.attempts, body.outcome.result.text], ['ended', 1, `answer to ${id}`]);
  }
  assert.deepEqual(
    provider.bills.map(({ prompt }) => prompt),
    ids,
  );
});

test('[FANO-6] fifty callers against a busy queue: one at a time, and the callers first', async (t) => {
  const provider = await tagProvider(t);
  const gateway = await GatewayProcess.start(t);
  await gateway.follow([seatOf(provider)]);
  for (let i = 0; i < 5; i++) {
    await gateway.line.ask('POST', '/job/submit', { backend: 's', payload: `job-${i}`, job_id: `job-${i}` });
  }
  await provider.billed(1);
  const waiting = Array.from({ length: 50 }, (_, i) => ({
    token: `${i}:1`,
    line: gateway.line.as({ owner: `caller-${i}` }),
  }));
  // Each has been refused once, and so has a place, before the seat frees.
  for (const { token, line } of waiting) {
    assert.equal((await gateway.submit(token, {}, line)).body.error.reason, 'occupied');
  }
  const order = ['job-0'];
  while (waiting.length > 0) {
    provider.release(order.at(-1) as string);
    await gateway.untilSeats(({ seats }) => seats[0].busy === 'reserved');
    // All try at once, the last one first.
    const tries = waiting.toReversed().map(({ token, line }) => gateway.submit(token, {}, line));
    const statuses = (await Promise.all(tries)).map(({ status }) => status).reverse();
    assert.deepEqual(statuses, [200, ...Array.from({ length: waiting.length - 1 }, () => 503)]);
    order.push((waiting.shift() as { token: string }).token);
    await provider.billed(order.length);
  }
  const jobs = ['job-1', 'job-2', 'job-3', 'job-4'];
  for (const prompt of [...order, ...jobs]) provider.release(prompt);
  await gateway.untilSeats(({ running, seats }) => running === 0 && seats[0].queued === 0);
  assert.equal(provider.peak, 1, 'one at a time');
  assert.deepEqual(
    provider.bills.map(({ prompt }) => prompt),
    [...order, ...jobs],
  );
});

test('an orderly stop leaves what runs to the next process', async (t) => {
  const provider = await tagProvider(t);
  const first = await GatewayProcess.start(t);
  await first.follow([seatOf(provider)]);
  await first.submit('a:1');
  await provider.billed(1);
  await first.line.ask('POST', '/shutdown', { grace_ms: 0 });
  assert.deepEqual(await first.gone, [0, null]);
  const second = await GatewayProcess.start(t, { folder: first.folder });
  await second.follow([seatOf(provider)]);
  provider.release('a:1');
  assert.equal((await second.ended('a:1')).data.result.text, 'answer to a:1');
  assert.equal(provider.bills.length, 1);
});
