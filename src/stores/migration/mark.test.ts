import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judge, markOf, spoilt } from './mark.ts';

const brain = { v: 1, owner: 'o', epoch: 3, attemptFloor: 0 } as const;

test('a move goes on only where the source is as it was, whatever it is called', () => {
  const mark = markOf('here', brain, 10);
  assert.equal(judge(mark, markOf('there', brain, 10)), 'continue');
  assert.equal(judge(mark, markOf('here', brain, 11)), 'anew');
  assert.equal(judge(mark, markOf('here', { ...brain, epoch: 4 }, 10)), 'anew');
  assert.equal(judge(spoilt(mark), mark), 'anew');
  assert.equal(judge(markOf('here', { ...brain, owner: 'p' }, 10), mark), 'foreign');
});
