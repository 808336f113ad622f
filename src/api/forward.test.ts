import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { realEnv } from '../kit/env/real.ts';
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

test('a node that does not lead passes on an answer of 20 MiB from the leader', async (t) => {
  const text = JSON.stringify({ result: 'a'.repeat(20 * 2 ** 20) });
  const leader = createServer((_, response) => response.end(text)).listen(0, '127.0.0.1');
  t.after(() => leader.close());
  await new Promise((resolve) => leader.once('listening', resolve));
  const address = `http://127.0.0.1:${(leader.address() as AddressInfo).port}`;
  const env = realEnv();
  const outbound = new Outbound({ timers: env.timers });
  t.after(() => outbound.close());
  const forwarder = new Forwarder({
    env,
    outbound,
    secret: () => 'secret',
    leader: () => ({ epoch: 1, node: 'leader', address, silentMs: 0 }),
    ownEpoch: () => undefined,
    self: { address: '' },
    localRoute: () => undefined,
    leaderChanged: () => new Promise((resolve) => void env.timers.soon(resolve)),
    holdMs: 0,
    heartbeatMs: 1000,
    isStopping: () => false,
  });
  const call = {
    url: '/v2/tasks/a',
    headers: {},
    identity: { name: 'a', role: 'read', tenant: 'default' },
    correlationId: 'c',
  } as unknown as Call;
  const answer = (await forwarder.handle(ROUTE, call)) as Answer;
  assert.deepEqual([answer.status, answer.text?.content.length], [200, text.length]);
});
