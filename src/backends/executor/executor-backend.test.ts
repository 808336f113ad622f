import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { Outbound } from '../../wire/outbound.ts';
import { WORKER_PROTOCOL } from '../pool/worker-protocol.ts';
import { ExecutorBackend } from './executor-backend.ts';

const COUNT = 1000;
const WHO = { owner: 'o', epoch: 1, nonce: 'n' };

test('attempts that are inspected at the same time share the list of executions', async (t) => {
  const tokens = Array.from({ length: COUNT }, (_, n) => `job-${n}:1`);
  const executions = tokens.map((token) => ({ token, job_id: token.slice(0, -2), state: 'running' }));
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.headers['x-orchd-epoch']} ${request.url}`);
    response.end(JSON.stringify({ registry: 'r', remembered_since: 1, executions }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { timers } = realEnv();
  const target = new Outbound({ timers }).to(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const info = { name: 'w', kind: 'worker', slots: COUNT, types: ['inference'] };
  const backend = new ExecutorBackend({
    info: { ...info, models: [], labels: {}, paid: false, keepsResults: true, registry: 'r' },
    protocol: WORKER_PROTOCOL,
    target,
    secret: undefined,
    timers,
  });
  t.after(() => backend.stop());
  const found = await Promise.all(tokens.map((token) => backend.inspect([token], WHO)));
  assert.deepEqual(
    found.map(({ known, others }) => [[...known], others?.length]),
    tokens.map((token) => [[[token, { is: 'running' }]], COUNT - 1]),
  );
  assert.equal(asked.length, 2);
  // A list is not shared with another brain: the executor checks who asks.
  await Promise.all([backend.inspect([], WHO), backend.inspect([], { ...WHO, epoch: 2 })]);
  assert.deepEqual(asked.slice(2).sort(), ['1 /executions', '2 /executions']);
});
