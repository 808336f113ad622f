import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitting } from '../terminal.ts';
import { waitText } from './wait-for.ts';

test('on 80 columns the rate and the time left are shown whole; the counts by state are cut', () => {
  const counts = { queued: 900_000, running: 64, succeeded: 1_099_000, dead: 936 };
  const sum = { jobs: 2_000_000, live: 900_064, counts, predictedMs: undefined };
  const shown = fitting(waitText(sum, 500_000, 1_000_000), 80);
  assert.match(shown, /^\[#####\.{5}\] 1,099,936 of 2,000,000 jobs ended, 500\/s, about 30 min left/);
  const few = { jobs: 3, live: 1, counts: { running: 1, succeeded: 2 }, predictedMs: 4000 };
  assert.equal(
    fitting(waitText(few, 0, 100), 80),
    '[######....] 2 of 3 jobs ended, about 4.0 s left, 1 running, 2 succeeded',
  );
});
