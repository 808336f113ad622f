import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../kit/env/real.ts';
import { OrchdError } from '../model/errors.ts';
import { Outbound } from '../wire/outbound.ts';
import type { Answer, Call, Route } from '../wire/route.ts';
import { Forwarder } from './forward.ts';

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
async function remoteLeader(t: TestContext, status: number, text: string): Promise<string> {
  const leader = createServer((_, response) => response.writeHead(status).end(text)).listen(0, '127.0.0.1');
  t.after(() => leader.close());
  await new Promise((resolve) => leader.once('listening', resolve));
  return `http://127.0.0.1:${(leader.address() as AddressInfo).port}`;
}

function forwarderOf(t: TestContext, address: string, localRoute?: Route): Forwarder {
  const env = realEnv();
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
    holdMs: 0,
    heartbeatMs: 1000,
    isStopping: () => false,
  });
}

const callOf = (identity: object = {}): Call =>
  ({
    url: '/v2/tasks/a',
    headers: {},
    identity: { name: 'a', role: 'read', tenant: 'default', ...identity },
    correlationId: 'c',
  }) as unknown as Call;

test('a node that does not lead passes on an answer of 20 MiB from the leader', async (t) => {
  const text = JSON.stringify({ result: 'a'.repeat(20 * 2 ** 20) });
  const forwarder = forwarderOf(t, await remoteLeader(t, 200, text));
  const answer = (await forwarder.handle(ROUTE, callOf())) as Answer;
  assert.deepEqual([answer.status, answer.text?.content.length], [200, text.length]);
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
