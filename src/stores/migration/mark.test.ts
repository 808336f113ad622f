import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareMarks, invalidated, markOf } from './mark.ts';

const brain = { v: 1, owner: 'o', epoch: 3, attemptFloor: 0 } as const;

test('a migration continues only where the source has not changed, whatever its location is called', () => {
  const mark = markOf('here', brain, 10);
  assert.equal(compareMarks(mark, markOf('there', brain, 10)), 'continue');
  assert.equal(compareMarks(mark, markOf('here', brain, 11)), 'restart');
  assert.equal(compareMarks(mark, markOf('here', { ...brain, epoch: 4 }, 10)), 'restart');
  assert.equal(compareMarks(invalidated(mark), mark), 'restart');
  assert.equal(compareMarks(markOf('here', { ...brain, owner: 'p' }, 10), mark), 'foreign');
});
