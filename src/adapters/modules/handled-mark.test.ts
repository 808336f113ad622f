import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import type { TaggedJob } from '../../runtime/tagged-jobs.ts';
import { HandledMark, MAX_ABOVE } from './handled-mark.ts';

/** Jobs of a module by admission number, which end when a test says so. */
class Jobs {
  readonly #ended = new Map<number, boolean>();

  admit(...numbers: readonly number[]): void {
    for (const n of numbers) this.#ended.set(n, false);
  }

  end(...numbers: readonly number[]): void {
    for (const n of numbers) this.#ended.set(n, true);
  }

  readonly after = async (after: number, limit: number): Promise<readonly TaggedJob[]> =>
    [...this.#ended]
      .filter(([n]) => n > after)
      .sort(([a], [b]) => a - b)
      .slice(0, limit)
      .map(([n, isEnded]) => ({ n, jobId: `job-${n}`, isEnded }));
}

function pathOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-mark-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'marks', 'module.json');
}

async function unhandled(mark: HandledMark): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { n } of mark.unhandled()) numbers.push(n);
  return numbers;
}

test('what ended out of order is remembered, by another process too', async (t) => {
  const path = pathOf(t);
  const jobs = new Jobs();
  jobs.admit(3, 5, 9, 12);
  jobs.end(5, 9, 12);
  const mark = await HandledMark.open(realEnv(), path, jobs.after);
  assert.deepEqual(await unhandled(mark), [5, 9, 12]);
  await mark.add(9);
  await mark.add(9);
  const again = await HandledMark.open(realEnv(), path, jobs.after);
  assert.deepEqual(await unhandled(again), [5, 12]);
  jobs.end(3);
  assert.deepEqual(await unhandled(again), [3, 5, 12], 'an older job may end last');
});

test('the mark moves on over handled jobs only, and stays behind the oldest that has not ended', async (t) => {
  const jobs = new Jobs();
  const numbers = Array.from({ length: 1500 }, (_, at) => 10 * at + 10);
  jobs.admit(...numbers);
  jobs.end(...numbers.slice(0, -1));
  const mark = await HandledMark.open(realEnv(), pathOf(t), jobs.after);
  for (const n of numbers.slice(0, 600)) if (n !== 1000) await mark.add(n);
  await mark.compact();
  assert.ok(mark.has(990) && !mark.has(1000) && mark.has(1010));
  assert.deepEqual((await unhandled(mark)).slice(0, 2), [1000, 6010]);
  await mark.add(1000);
  await mark.compact();
  assert.deepEqual((await unhandled(mark))[0], 6010);
  assert.ok(mark.has(995), 'numbers of other jobs below the mark do not matter');
});

test('a mark with too many jobs behind one that has not ended is full, until that one has', async (t) => {
  const jobs = new Jobs();
  const numbers = Array.from({ length: MAX_ABOVE }, (_, at) => at + 2);
  jobs.admit(1, ...numbers);
  jobs.end(...numbers);
  const path = pathOf(t);
  mkdirSync(dirname(path));
  writeFileSync(path, JSON.stringify({ v: 1, below: 0, above: numbers }));
  const mark = await HandledMark.open(realEnv(), path, jobs.after);
  assert.equal(mark.isFull, true);
  await mark.compact();
  assert.equal(mark.isFull, true);
  jobs.end(1);
  await mark.add(1);
  await mark.compact();
  assert.equal(mark.isFull, false);
  assert.deepEqual(await unhandled(mark), []);
});
