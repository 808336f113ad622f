/** Many commands at once keep the event loop busy for no longer than one of them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { LoopClock } from '../fakes/loop-clock.ts';

const MAX_TURN_MS = 50;
const CALLERS = Number(process.env['LOOP_CALLERS'] ?? 40);
const BULK = 1000;

interface Crowd {
  readonly what: string;
  /** The session of a job, or of a caller. */
  readonly session: (at: number) => string;
  /** How many of the callers are answered with success; the others, that there is no such session. */
  readonly succeeding: number;
}

const CROWDS: readonly Crowd[] = [
  {
    what: 'callers that each delete a session of 1,000 jobs',
    session: (at) => `own-${at % CALLERS}`,
    succeeding: CALLERS,
  },
  { what: 'callers that all delete the same session', session: () => 'shared', succeeding: 1 },
];

async function fill({ orchestrator }: HttpBrain, { session }: Crowd): Promise<void> {
  for (let start = 0; start < CALLERS * BULK; start += BULK) {
    const requests = Array.from({ length: BULK }, (_, at) => ({
      type: 'nobody-does',
      session_id: session(start + at),
    }));
    const answers = await orchestrator.submitMany(requests);
    assert.ok(answers.every((answer) => !(answer instanceof Error)));
  }
}

/** All of them call in one turn, as they would in the worst case over HTTP. */
async function deleteAll({ orchestrator }: HttpBrain, { session }: Crowd): Promise<number> {
  const deleting = Array.from({ length: CALLERS }, (_, at) =>
    orchestrator.sessions.remove(DEFAULT_TENANT, session(at), 'test'),
  );
  const ends = await Promise.allSettled(deleting);
  return ends.filter(({ status }) => status === 'fulfilled').length;
}

for (const crowd of CROWDS) {
  test(`${crowd.what} at once do not keep the loop busy for more than 50 ms`, {
    timeout: 300_000,
  }, async (t) => {
    const data = mkdtempSync(join(tmpdir(), 'loop-crowds-'));
    const brain = await httpBrain({ data, config: 'orchestrator: { queue_capacity: 1000000 }' });
    const clock = new LoopClock();
    try {
      const { longestMs, said } = await clock.best(
        MAX_TURN_MS,
        async () => assert.equal(await deleteAll(brain, crowd), crowd.succeeding),
        () => fill(brain, crowd),
      );
      const { jobs } = await brain.orchestrator.list({ state: 'queued', limit: 10 });
      assert.deepEqual(jobs, [], 'all of them are cancelled');
      t.diagnostic(said);
      assert.ok(longestMs <= MAX_TURN_MS, said);
    } finally {
      clock.stop();
      await brain.stop();
      rmSync(data, { recursive: true, force: true });
    }
  });
}
