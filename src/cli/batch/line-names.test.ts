import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultList } from './fault-list.ts';
import { LineNames } from './line-names.ts';

const line = (number: number, name?: string, after: readonly string[] = []) => ({
  number,
  name,
  after,
  request: {},
});
const idOf = (number: number): string => `b.${number}`;

test('names of earlier lines become ids, anything else is an id', () => {
  const names = new LineNames();
  const lines = [line(1, 'a'), line(2, 'b', ['a']), line(5, undefined, ['b', 'job-7'])];
  for (const each of lines) names.add(each);
  assert.deepEqual([names.faults(), names.foreignIds], [[], [['job-7', 5]]]);
  assert.deepEqual(
    lines.map((each) => names.idsOf(each, idOf)),
    [[], ['b.1'], ['b.2', 'job-7']],
  );
});

test('what is wrong in the first reading is wrong in the second, and so is what waits for a line that is left out', () => {
  const names = new LineNames();
  const forward = line(1, 'first', ['later']);
  names.add(forward);
  assert.throws(() => names.add(line(2, 'own', ['own'])), /own line/);
  names.add(line(3, 'later'));
  assert.throws(() => names.add(line(4, 'later')), /that of line 3/);
  const waiter = line(6, undefined, ['first']);
  names.add(waiter);
  names.add(line(7, undefined, ['not an id']));
  assert.deepEqual(
    names.faults().map(({ line: number }) => number),
    [1, 7],
  );
  assert.throws(() => names.idsOf(forward, idOf), /further down/);
  assert.throws(() => names.idsOf(line(4, 'later'), idOf), /that of line 3/);
  assert.deepEqual(names.idsOf(waiter, idOf), ['b.1']);
  names.skip(1);
  assert.throws(() => names.idsOf(waiter, idOf), /line 1, for which it waits \("first"\), is left out/);
  assert.throws(() => names.idsOf(line(7, undefined, ['not an id']), idOf), /neither/);
});

test('of many faults the first twenty lines are shown, in whatever order they come', () => {
  const faults = new FaultList();
  for (let number = 100; number > 0; number--) faults.add({ line: number, text: 'x' });
  const shown = faults.lines('f', 200);
  assert.deepEqual([shown[0], shown[19], shown[20], shown.length], ['f:1: x', 'f:20: x', 'and 80 more', 21]);
  assert.deepEqual(
    faults.lines('f', 100),
    ['f: all 100 lines: x'],
    'a fault that all lines have is said once',
  );
  faults.add({ line: 101, text: 'y' });
  assert.equal(faults.lines('f', 101).length, 21);
});
