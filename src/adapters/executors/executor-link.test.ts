import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { ExecutorLink, type ExecutorReport } from './executor-link.ts';

test('nothing is sent to the address of a process that has ended: another program may listen there by now', async (t) => {
  let hasEnded = false;
  let strangerWasAsked = false;
  const server = createServer((_, response) => {
    if (hasEnded) strangerWasAsked = true;
    response.end(JSON.stringify({ version: 1, running: 0, unacknowledged: 0 }));
    if (!hasEnded) response.on('close', () => server.closeAllConnections());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  const problem = Promise.withResolvers<void>();
  const reported = Promise.withResolvers<void>();
  const { port } = server.address() as AddressInfo;
  const executor = { uri: `http://127.0.0.1:${port}`, secret: 'secret' };
  let opens = 0;
  const host = {
    what: 'it',
    open: async () => (opens++ === 0 ? executor : new Promise<never>(() => undefined)),
    get isRunning() {
      return !hasEnded;
    },
    end: () => undefined,
    tidy: () => undefined,
  };
  const link = new ExecutorLink<ExecutorReport>({
    env: realEnv(),
    host,
    path: '/state',
    read: (body) => {
      // The process ends, and its port is taken at once.
      hasEnded = true;
      reported.resolve();
      if (opens > 0) throw new Error(`its connection broke after ${JSON.stringify(body)}`);
      return body as ExecutorReport;
    },
    isNeeded: true,
    hasWork: () => false,
    maxStreams: 4,
    listener: { onReport: () => undefined, onProblem: () => problem.resolve(), onGone: () => undefined },
  });
  link.start();
  await reported.promise;
  const held = link.target();
  await problem.promise;
  for (const target of [held, link.target()])
    await assert.rejects(target.request({ path: '/active_requests' }));
  assert.deepEqual([link.executor, strangerWasAsked], [undefined, false]);
});
