import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFailure } from '../stores/journal/failures.ts';
import { refusalOf } from './refusal.ts';

test('a command that ends for lack of disk space does not claim that jobs continue', () => {
  for (const error of [
    new Error('database or disk is full'),
    Object.assign(new Error('write'), { code: 'ENOSPC' }),
  ]) {
    const { text, code } = refusalOf(openFailure(error));
    assert.match(text, /\(STORE_FULL\)\nFree disk space, then run the command again\.$/);
    assert.doesNotMatch(text, /continue/);
    assert.equal(code, 2);
  }
});
