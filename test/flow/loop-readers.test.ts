/** Many readers at once keep the event loop busy for no longer than one of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock } from '../fakes/loop-clock.ts';
import { tempFolder } from './flow-kit.ts';

const MAX_TURN_MS = 50;
const JOBS = Number(process.env['LOOP_JOBS'] ?? 20_000);
const BULK = 1000;

/** Each request, and how many times it is sent at once. */
const REQUESTS: readonly (readonly [path: string, copies: number])[] = [
  ['/v2/tasks/large', 300],
  ['/v2/tasks/large/events', 300],
  ['/v2/tasks?limit=1000', 50],
  ['/v2/tasks?key=none', 300],
];

test('readers that ask at once for a large result, or for lists of jobs, are not all served in one turn', {
  timeout: 600_000,
}, async (t) => {
  const brain = await httpBrain({
    data: tempFolder(t),
    config: 'orchestrator: { queue_capacity: 1000000 }',
    backends: [{ name: 'b', types: { large: () => 'x'.repeat(2 ** 20) } }],
  });
  t.after(() => brain.stop());
  const { orchestrator, port } = brain;
  await orchestrator.submit({ job_id: 'large', type: 'large' });
  await orchestrator.wait('large');
  for (let at = 0; at < JOBS; at += BULK)
    await orchestrator.submitMany(Array.from({ length: BULK }, () => ({ type: 'nobody-does' })));
  const client = new LoopClient();
  t.after(() => client.stop());
  const clock = new LoopClock();
  t.after(() => clock.stop());
  for (const [path, copies] of REQUESTS) {
    const { longestMs, said } = await clock.best(MAX_TURN_MS, async () => {
      const { status } = await client.send({ port, method: 'GET', path, copies, giveUpMs: 120_000 });
      assert.equal(status, 200, path);
    });
    t.diagnostic(`${path}: ${said}`);
    assert.ok(longestMs <= MAX_TURN_MS, `${path}: ${said}`);
  }
});
