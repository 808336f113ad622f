import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, START, submission } from '../../test/fakes/engine-kit.ts';
import { listJobs } from './listing.ts';

const MANY = 10_000;

test('a search through many jobs takes several turns, and finds each job once while jobs come and go', async () => {
  const kit = new EngineKit({ queueCapacity: 100_000 });
  const submissions = Array.from({ length: MANY }, (_, at) =>
    submission(`j${at}`, { agent: at % 2000 === 0 ? 'rare' : 'often' }),
  );
  kit.step({ type: 'submit', submissions });
  let turns = 0;
  const parts = {
    state: kit.engine.state,
    history: { get: async () => undefined, list: async () => [], count: async () => 0 },
    durable: async () => undefined,
    timers: {
      soon(run: () => void) {
        turns++;
        // Between two turns the engine goes on.
        kit.submit(`later-${turns}`, { agent: 'rare' });
        kit.cancel(`j${MANY - turns}`);
        setImmediate(run);
      },
      after: () => () => undefined,
    },
    now: () => START,
  };
  const { jobs } = await listJobs(parts, { agent: 'rare', limit: 100 }, 'default');
  assert.deepEqual(
    jobs.map(({ job_id }) => job_id),
    ['j8000', 'j6000', 'j4000', 'j2000', 'j0'],
  );
  assert.ok(turns >= MANY / 2000 - 1, `${turns} turns`);
  turns = 0;
  await listJobs(parts, { limit: 100 }, 'default');
  assert.equal(turns, 0);
});
