import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csvCell, csvLine } from './csv.ts';

test('cells are quoted as RFC 4180 says, and formulas are made texts', () => {
  const cases: [string | number | undefined, string][] = [
    [undefined, ''],
    [-5, '-5'],
    ['plain', 'plain'],
    ['a,b', '"a,b"'],
    ['say "x"', '"say ""x"""'],
    ['two\nlines', '"two\nlines"'],
    ['=1+1', "'=1+1"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['+49 30', "'+49 30"],
    ['-2.5', '-2.5'],
    ['- a point, and more', `"'- a point, and more"`],
    ['\tx', "'\tx"],
  ];
  for (const [value, cell] of cases) assert.equal(csvCell(value), cell);
});

test('a line has an empty cell for what is absent, and ends as RFC 4180 says', () => {
  assert.equal(csvLine(['a', undefined, null, 1, 'b,c']), 'a,,,1,"b,c"\r\n');
});
