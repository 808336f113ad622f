import assert from 'node:assert/strict';
import { test } from 'node:test';
import { historyOf, historyProblem } from './history.ts';
import type { SpoolStatus } from './states.ts';

const line = (n: number, from: SpoolStatus, to: SpoolStatus, actor = 'a'): string =>
  JSON.stringify({ n, from, to, actor, attempt: 1, at: '' });

const text = (...lines: string[]): string => `${lines.join('\n')}\n`;
const WHOLE = [
  line(1, 'queued', 'in-progress'),
  line(2, 'in-progress', 'stale', 'w'),
  line(3, 'stale', 'queued', 'm'),
];

const moves = (content: string, status: SpoolStatus, count: number): string[] =>
  historyOf(content, { status, moves: count }).map(({ n, to, actor }) => `${n} ${to} ${actor}`);

test('a history is the changes in their order', () => {
  assert.deepEqual(moves(text(...WHOLE), 'queued', 3), ['1 in-progress a', '2 stale w', '3 queued m']);
  assert.equal(historyProblem(text(...WHOLE), { status: 'queued', moves: 3 }), undefined);
});

test('a line whose change did not come to pass does not count', () => {
  assert.deepEqual(moves(text(...WHOLE), 'stale', 2), ['1 in-progress a', '2 stale w']);
});

test('a line that an agent wrote after it had lost the job does not count', () => {
  const late = text(...WHOLE, line(2, 'in-progress', 'failed', 'late'));
  assert.deepEqual(moves(late, 'queued', 3), ['1 in-progress a', '2 stale w', '3 queued m']);
  assert.equal(historyProblem(late, { status: 'queued', moves: 3 }), undefined);
});

test('lines that a power cut took are missing, and half a line is none', () => {
  const torn = text(WHOLE[0] as string, (WHOLE[1] as string).slice(0, 20), WHOLE[2] as string);
  assert.deepEqual(moves(torn, 'queued', 3), ['1 in-progress a', '3 queued m']);
  assert.equal(historyProblem(torn, { status: 'queued', moves: 3 }), undefined);
});

test('a history with a change that is not allowed, or that leads elsewhere, is wrong', () => {
  assert.match(
    historyProblem(text(line(1, 'queued', 'stale')), { status: 'stale', moves: 1 }) ?? '',
    /from queued to stale/,
  );
  assert.match(historyProblem(text(...WHOLE), { status: 'killed', moves: 3 }) ?? '', /change 3 leads/);
});

test('the number of changes in a job.json may be anything: a history of few lines is read at once', () => {
  const count = Number.MAX_SAFE_INTEGER;
  assert.deepEqual(moves(text(...WHOLE), 'queued', count), ['1 in-progress a', '2 stale w', '3 queued m']);
  assert.equal(historyProblem(text(...WHOLE), { status: 'queued', moves: count }), undefined);
});
