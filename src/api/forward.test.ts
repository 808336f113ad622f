import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import type { Env } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import { OrchdError } from '../model/errors.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { Outbound } from '../wire/outbound.ts';
import type { Answer, Call, Route } from '../wire/route.ts';
import { Forwarder } from './forward.ts';
import { OpenStreams } from './open-streams.ts';
import { taskRoutes } from './tasks.ts';

const ROUTE: Route = {
  operationId: 'test',
  tag: 'server',
  method: 'GET',
  path: '/v2/tasks/:id',
  role: 'read',
  summary: '',
  answers: {},
  handle: () => ({ status: 500 }),
};

/** A leader at another node that gives every request this answer. */
const remoteLeader = (t: TestContext, status: number, text: string): Promise<string> =>
  listen(t, (_, response) => response.writeHead(status).end(text));

async function listen(t: TestContext, answer: RequestListener): Promise<string> {
  const leader = createServer(answer).listen(0, '127.0.0.1');
  t.after(() => {
    leader.close();
    leader.closeAllConnections();
  });
  await new Promise((resolve) => leader.once('listening', resolve));
  return `http://127.0.0.1:${(leader.address() as AddressInfo).port}`;
}

function forwarderOf(
  t: TestContext,
  address: string,
  localRoute?: Route,
  { env, holdMs }: { readonly env: Env; readonly holdMs: number } = { env: realEnv(), holdMs: 0 },
): Forwarder {
  const outbound = new Outbound({ timers: env.timers });
  t.after(() => outbound.close());
  return new Forwarder({
    env,
    outbound,
    secret: () => 'secret',
    leader: () => ({ epoch: 1, node: 'leader', address, silentMs: 0 }),
    ownEpoch: () => undefined,
    self: { address: '' },
    localRoute: () => localRoute,
    leaderChanged: () => new Promise((resolve) => void env.timers.soon(resolve)),
    holdMs,
    heartbeatMs: 1000,
    isStopping: () => false,
  });
}

const callOf = (identity: object = {}, body?: unknown): Call =>
  ({
    url: '/v2/tasks/a',
    headers: {},
    body,
    bodySize: 'small',
    onDisconnect: () => undefined,
    identity: { name: 'a', role: 'read', tenant: 'default', ...identity },
    correlationId: 'c',
  }) as unknown as Call;

test('a node that does not lead passes on an answer of 20 MiB from the leader', async (t) => {
  const text = JSON.stringify({ result: 'a'.repeat(20 * 2 ** 20) });
  const forwarder = forwarderOf(t, await remoteLeader(t, 200, text));
  const answer = (await forwarder.handle(ROUTE, callOf())) as Answer;
  assert.deepEqual([answer.status, answer.text?.content.length], [200, text.length]);
});

test('the leader gets the trace of the caller', async (t) => {
  const heard: unknown[] = [];
  const address = await listen(t, (request, response) => {
    heard.push(request.headers['traceparent']);
    response.end('{}');
  });
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const forwarder = forwarderOf(t, address);
  await forwarder.handle(ROUTE, { ...callOf(), headers: { traceparent } });
  const proxied: Route = { ...ROUTE, method: 'POST', isProxied: true };
  await forwarder.handle(proxied, { ...callOf(), headers: { traceparent } });
  await forwarder.handle(ROUTE, callOf());
  assert.deepEqual(heard, [traceparent, traceparent, undefined]);
});

/** A request that is not repeated unasked: it may have been carried out by the leader that was replaced. */
const ONCE: Route = { ...ROUTE, method: 'POST' };

for (const code of ['FENCED', 'SHUTTING_DOWN', 'STORE_FAILED'] as const) {
  test(`a leader that ends with ${code} during a request is a 503 that may be tried again, at every node`, async (t) => {
    const fenced = new OrchdError(code);
    const failing: Route = { ...ONCE, handle: () => Promise.reject(fenced) };
    const local = forwarderOf(t, '', failing);
    const retriable = { code: 'NO_LEADER', retriable: true, status: 503 };
    await assert.rejects(local.handle(failing, callOf()), retriable);
    await assert.rejects(local.handle(failing, callOf({ fromNode: true })), { code });
    const error = { error: { ...fenced.info() } };
    const remote = forwarderOf(t, await remoteLeader(t, fenced.status, JSON.stringify(error)));
    await assert.rejects(remote.handle(ONCE, callOf()), retriable);
    await assert.rejects(remote.handle({ ...ONCE, isProxied: true }, callOf()), retriable);
  });
}

const HOLD_MS = 10_000;

/** Sends a request to a leader that takes it and never answers; what its caller was told after `ms`, if anything. */
async function toldBySilentLeader(
  t: TestContext,
  route: Route,
  body: unknown,
  ms: number,
): Promise<OrchdError | undefined> {
  const arrived = Promise.withResolvers<void>();
  const address = await listen(t, () => arrived.resolve());
  const virtual = new VirtualEnv();
  const forwarder = forwarderOf(t, address, undefined, { env: virtual.env(), holdMs: HOLD_MS });
  let told: OrchdError | undefined;
  const asking = Promise.resolve(forwarder.handle(route, callOf({}, body))).catch((error: OrchdError) => {
    told = error;
  });
  void asking;
  await arrived.promise;
  await virtual.pass(ms);
  return told;
}

const [SUBMIT] = taskRoutes({} as Orchestrator, () => 'made', new OpenStreams(1, 1), realEnv().timers);

test('an array of jobs whose answer was lost is refused with the ids that make it safe to repeat', async (t) => {
  const given = [{ type: 'a' }, { type: 'b', job_id: 'own' }, 5];
  const bulk = await toldBySilentLeader(t, SUBMIT!, given, HOLD_MS);
  assert.deepEqual([bulk?.code, bulk?.details.jobIds], ['NO_LEADER', ['made', 'own', null]]);
  assert.match(bulk?.message ?? '', /may have been accepted/);
  const single = await toldBySilentLeader(t, SUBMIT!, { type: 'a' }, HOLD_MS);
  assert.deepEqual([single?.details.jobId, single?.details.jobIds], ['made', undefined]);
  const own = await toldBySilentLeader(t, SUBMIT!, [{ type: 'a', job_id: 'own' }], HOLD_MS);
  assert.deepEqual([own?.code, own?.details.jobIds], ['NO_LEADER', undefined]);
});

const CHAT: Route = { ...ONCE, isProxied: true };

for (const [what, route, body] of [
  ['a short answer', ROUTE, undefined],
  ['the events of a job', { ...ROUTE, streams: true }, undefined],
  ['a streamed answer of a model', CHAT, { stream: true }],
] as const) {
  test(`a leader that is silent is waited for no longer than a missing one (${what})`, async (t) => {
    const told = await toldBySilentLeader(t, route, body, HOLD_MS);
    assert.deepEqual([told?.code, told?.status], ['NO_LEADER', 503]);
  });
}

test('an answer that takes as long as a job ends when its leader has been silent for three heartbeats', async (t) => {
  assert.equal(await toldBySilentLeader(t, CHAT, {}, 2900), undefined);
  assert.equal((await toldBySilentLeader(t, CHAT, {}, 3000))?.code, 'NO_LEADER');
});

test('a request that did not reach the leader in time is a 503, not a 408 that the caller could not have caused', async (t) => {
  const error = { error: { ...new OrchdError('REQUEST_TIMEOUT').info() } };
  const forwarder = forwarderOf(t, await remoteLeader(t, 408, JSON.stringify(error)));
  for (const route of [ROUTE, ONCE, CHAT])
    await assert.rejects(forwarder.handle(route, callOf()), { code: 'NO_LEADER', status: 503 });
});

test('a request that is sent again and again listens for its caller once, and stops when the caller is gone', async (t) => {
  const refusal = JSON.stringify({ error: { code: 'NO_LEADER' } });
  let sent = 0;
  const sentOften = Promise.withResolvers<void>();
  const address = await listen(t, (_, response) => {
    if (++sent < 20) response.writeHead(503).end(refusal);
    else sentOften.resolve();
  });
  const forwarder = forwarderOf(t, address, undefined, { env: realEnv(), holdMs: 60_000 });
  const listeners: (() => void)[] = [];
  const call = { ...callOf(), onDisconnect: (run: () => void) => void listeners.push(run) };
  const asking = assert.rejects(forwarder.handle(CHAT, call), { code: 'NO_LEADER' });
  await sentOften.promise;
  assert.equal(listeners.length, 1);
  listeners[0]!();
  await asking;
});
