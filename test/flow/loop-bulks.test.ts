/** Many requests at once keep the event loop busy for no longer than one of them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock } from '../fakes/loop-clock.ts';

const MAX_TURN_MS = 50;
const BULKS = Number(process.env['LOOP_BULKS'] ?? 40);
const JOB = { type: 'nobody-does', wait_for_backend: true };
const FIELDS = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`label-${at}`, 'a value']));
/** Of each size of body that is parsed and prepared in one turn, the most work. */
const BULKS_OF: Readonly<Record<string, readonly object[]>> = {
  'at most 64 KiB': Array.from({ length: 1000 }, () => JOB),
  'at most 512 KiB': Array.from({ length: 1000 }, (_, at) => ({ ...JOB, job_id: `j${at}`, labels: FIELDS })),
};

for (const [size, jobs] of Object.entries(BULKS_OF)) testBulks(size, JSON.stringify(jobs));

function testBulks(size: string, body: string): void {
  test(`bulks of 1,000 jobs of ${size} that arrive together are not all admitted in one turn`, async (t) => {
    const data = mkdtempSync(join(tmpdir(), 'loop-bulks-'));
    const brain = await httpBrain({ data, config: 'orchestrator: { queue_capacity: 1000000 }' });
    const client = new LoopClient();
    const clock = new LoopClock();
    try {
      const { longestMs, said } = await clock.best(MAX_TURN_MS, async () => {
        const request = { port: brain.port, method: 'POST', path: '/v2/tasks', body, copies: BULKS };
        const { status } = await client.send({ ...request, giveUpMs: 120_000 });
        assert.equal(status, 200);
      });
      t.diagnostic(said);
      assert.ok(longestMs <= MAX_TURN_MS, said);
    } finally {
      clock.stop();
      await client.stop();
      await brain.stop();
      rmSync(data, { recursive: true, force: true });
    }
  });
}
