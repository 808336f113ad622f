import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, START, submission } from '../../test/fakes/engine-kit.ts';
import { type ListingParts, listJobs } from './listing.ts';

const MANY = 10_000;

function kitWith(jobs: number): EngineKit {
  const kit = new EngineKit({ queueCapacity: 100_000 });
  const submissions = Array.from({ length: jobs }, (_, at) =>
    submission(`j${at}`, { agent: at % 2000 === 0 ? 'rare' : 'often' }),
  );
  kit.step({ type: 'submit', submissions });
  return kit;
}

/** What a listing needs; `between` runs between two turns. */
const partsOf = ({ engine }: EngineKit, between: () => void): ListingParts => ({
  state: engine.state,
  queue: engine.queue,
  history: {
    get: async () => undefined,
    list: async () => [],
    between: async () => [],
    count: async () => 0,
  },
  durable: async () => undefined,
  timers: {
    soon: (run) =>
      void setImmediate(() => {
        between();
        run();
      }),
    after: () => () => undefined,
  },
  now: () => START,
});

test('a search through many jobs takes several turns, and finds each job once while jobs come and go', async () => {
  const kit = kitWith(MANY);
  let turns = 0;
  const parts = partsOf(kit, () => {
    turns++;
    kit.submit(`later-${turns}`, { agent: 'rare' });
    kit.cancel(`j${MANY - turns}`);
  });
  const { jobs } = await listJobs(parts, { agent: 'rare', limit: 100 }, 'default');
  assert.deepEqual(
    jobs.map(({ job_id }) => job_id),
    ['j8000', 'j6000', 'j4000', 'j2000', 'j0'],
  );
  assert.ok(turns >= MANY / 2000 - 1, `${turns} turns`);
  turns = 0;
  await listJobs(parts, { limit: 100 }, 'default');
  assert.ok(turns <= 1, `${turns} turns`);
});

test('searches at the same time look at jobs in turns of their own', async (t) => {
  const kit = kitWith(MANY);
  let turn = 0;
  const parts = partsOf(kit, () => {
    turn++;
  });
  const looks: number[] = [];
  const newestFirst = parts.state.admitted.newestFirst.bind(parts.state.admitted);
  t.mock.method(parts.state.admitted, 'newestFirst', (before: number | undefined) => {
    looks.push(turn);
    return newestFirst(before);
  });
  await Promise.all(Array.from({ length: 20 }, () => listJobs(parts, { key: 'none' }, 'default')));
  assert.ok(looks.length >= 20 * (MANY / 2000), `${looks.length} looks`);
  assert.equal(new Set(looks).size, looks.length);
});
