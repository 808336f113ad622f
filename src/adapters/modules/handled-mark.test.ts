import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HandledRange } from '../../model/module-record.ts';
import type { TaggedJob } from '../../runtime/tagged-jobs.ts';
import { HandledMark } from './handled-mark.ts';

/** Jobs of a module by admission number, which end when a test says so, and the written record. */
class Jobs {
  readonly #ended = new Map<number, boolean>();
  written: readonly HandledRange[] = [];
  writes = 0;

  admit(...numbers: readonly number[]): void {
    for (const n of numbers) this.#ended.set(n, false);
  }

  end(...numbers: readonly number[]): void {
    for (const n of numbers) this.#ended.set(n, true);
  }

  forget(...numbers: readonly number[]): void {
    for (const n of numbers) this.#ended.delete(n);
  }

  /** A mark of what was written, as another process would open it. */
  mark(maxRanges?: number): HandledMark {
    const jobsAfter = async (after: number, limit: number): Promise<readonly TaggedJob[]> =>
      [...this.#ended]
        .filter(([n]) => n > after)
        .sort(([a], [b]) => a - b)
        .slice(0, limit)
        .map(([n, isEnded]) => ({ n, jobId: `job-${n}`, isEnded }));
    const write = async (ranges: readonly HandledRange[]): Promise<void> => {
      this.written = ranges;
      this.writes++;
    };
    return new HandledMark({ jobsAfter, write, ...(maxRanges !== undefined && { maxRanges }) }, this.written);
  }
}

async function unhandled(mark: HandledMark): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { n } of mark.unhandled()) numbers.push(n);
  return numbers;
}

const tens = (count: number): number[] => Array.from({ length: count }, (_, at) => 10 * at + 10);

test('what ended out of order is remembered, by another process too', async () => {
  const jobs = new Jobs();
  jobs.admit(3, 5, 9, 12);
  jobs.end(5, 9, 12);
  const mark = jobs.mark();
  assert.deepEqual(await unhandled(mark), [5, 9, 12]);
  await mark.add(9);
  assert.deepEqual(jobs.written, [
    [0, 0],
    [9, 9],
  ]);
  await mark.add(9);
  assert.equal(jobs.writes, 1, 'a second end of the same job writes nothing');
  const again = jobs.mark();
  assert.deepEqual(await unhandled(again), [5, 12]);
  jobs.end(3);
  assert.deepEqual(await unhandled(again), [3, 5, 12], 'an older job may end last');
});

test('ranges without another job of the module between them are joined, and one job stays out', async () => {
  const jobs = new Jobs();
  const numbers = tens(1500);
  jobs.admit(...numbers);
  jobs.end(...numbers);
  const mark = jobs.mark();
  for (const n of numbers.slice(0, 1024)) if (n !== 1000) await mark.add(n);
  assert.ok(jobs.written.length < 300, `${jobs.written.length} ranges`);
  assert.ok(mark.has(990) && !mark.has(1000) && mark.has(1010) && !mark.has(10_250));
  assert.deepEqual((await unhandled(mark)).slice(0, 2), [1000, 10_250]);
  const small = jobs.mark(1);
  await small.add(1000);
  assert.deepEqual(jobs.written, [[0, 10_240]]);
  assert.ok(small.has(995), 'numbers of other jobs within a range do not matter');
  assert.deepEqual(await unhandled(jobs.mark()), numbers.slice(1024));
});

test('jobs in any order: each is handled once, and the record stays short', async () => {
  const jobs = new Jobs();
  const numbers = tens(3000);
  jobs.admit(...numbers);
  let mark = jobs.mark();
  const order = numbers
    .map((n, at) => [((at * 7919) % 3000) + n / 1e6, n] as const)
    .sort(([a], [b]) => a - b);
  const seen = new Set<number>();
  for (const [at, [, n]] of order.entries()) {
    jobs.end(n);
    assert.equal(mark.has(n), false);
    await mark.add(n);
    seen.add(n);
    // Another process goes on.
    if (at % 500 === 0) mark = jobs.mark();
    if (at % 700 === 0) for (const each of numbers) assert.equal(mark.has(each), seen.has(each), `${each}`);
  }
  assert.deepEqual(await unhandled(jobs.mark()), []);
});

test('without room, only jobs next to a range are handled; the oldest always is', async () => {
  const jobs = new Jobs();
  jobs.admit(1, 2, 3, 4, 5, 6);
  jobs.end(2, 4, 5, 6);
  const mark = jobs.mark(3);
  for (const n of [2, 4]) await mark.add(n);
  assert.deepEqual([await mark.hasRoomFor(6), await mark.hasRoomFor(5)], [false, true]);
  await mark.add(5);
  assert.deepEqual(jobs.written, [
    [0, 0],
    [2, 2],
    [4, 5],
  ]);
  jobs.end(1);
  assert.equal(await mark.hasRoomFor(1), true);
  await mark.add(1);
  assert.deepEqual(jobs.written, [
    [0, 2],
    [4, 5],
  ]);
  assert.equal(await mark.hasRoomFor(6), true);
});

test('ranges of jobs that the history has forgotten go', async () => {
  const jobs = new Jobs();
  jobs.admit(1, 2, 3, 4, 5);
  jobs.end(2, 4, 5);
  const mark = jobs.mark();
  await mark.add(2);
  await mark.add(4);
  jobs.forget(2, 3, 4);
  await jobs.mark(1).add(5);
  assert.deepEqual(jobs.written, [
    [0, 0],
    [5, 5],
  ]);
});
