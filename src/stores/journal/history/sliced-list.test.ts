import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HistoryQuery, JobBundle } from '../../../core/ports/store.ts';
import { listInSlices } from './sliced-list.ts';

/** A range of admission numbers without its ends. */
interface Search {
  readonly after: number;
  readonly before: number;
}

/** A history of jobs with these admission numbers, which notes the ranges that are searched. */
function historyOf(numbers: readonly number[], searches: Search[]) {
  return {
    list: ({ before = Number.POSITIVE_INFINITY, after = -1, limit, order }: HistoryQuery): JobBundle[] => {
      searches.push({ after, before });
      const sign = order === 'oldest first' ? 1 : -1;
      const found = numbers.filter((n) => n > after && n < before).sort((a, b) => sign * (a - b));
      return found.slice(0, limit).map((n) => ({ ask: { n } }) as JobBundle);
    },
    range: () =>
      numbers.length === 0 ? undefined : { low: Math.min(...numbers), high: Math.max(...numbers) },
  };
}

let turns = 0;
const timers = {
  soon: (run: () => void) => {
    turns++;
    setImmediate(run);
  },
  after: () => () => undefined,
};

const list = async (numbers: readonly number[], query: Partial<HistoryQuery>, searches: Search[] = []) => {
  const found = await listInSlices(
    historyOf(numbers, searches),
    { tenant: 'default', limit: 3, ...query },
    timers,
  );
  return found.map(({ ask }) => ask.n);
};

test('the newest jobs are found, however far they are apart', async () => {
  const numbers = [5, 70_000, 99_999, 250_001];
  assert.deepEqual(await list(numbers, {}), [250_001, 99_999, 70_000]);
  assert.deepEqual(await list(numbers, { limit: 10 }), [250_001, 99_999, 70_000, 5]);
  assert.deepEqual(await list(numbers, { before: 99_999 }), [70_000, 5]);
  assert.deepEqual(await list(numbers, { before: 5 }), []);
  assert.deepEqual(await list([], {}), []);
});

test('the oldest jobs are found first where that was asked for', async () => {
  const numbers = [5, 70_000, 99_999, 250_001];
  const order = 'oldest first' as const;
  assert.deepEqual(await list(numbers, { order }), [5, 70_000, 99_999]);
  assert.deepEqual(await list(numbers, { order, after: 5 }), [70_000, 99_999, 250_001]);
  assert.deepEqual(await list(numbers, { order, after: 70_000, before: 250_001 }), [99_999]);
  assert.deepEqual(await list(numbers, { order, after: 250_001 }), []);
});

test('no turn searches more than 20,000 numbers, unless there is an index for them', async () => {
  const numbers = [1, 1_000_000];
  const searches: Search[] = [];
  turns = 0;
  await list(numbers, {}, searches);
  await list(numbers, { order: 'oldest first' }, searches);
  assert.ok(searches.every(({ after, before }) => before - after - 1 <= 20_000));
  assert.ok(turns >= searches.length, `${turns} turns`);
  const indexed: Search[] = [];
  await list(numbers, { session: 's' }, indexed);
  await list(numbers, { key: 'k' }, indexed);
  await list(numbers, { batch: 'b' }, indexed);
  assert.equal(indexed.length, 3);
});
