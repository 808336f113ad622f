import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PAGES, renderErrors } from '../scripts/docs.ts';
import { ERRORS, REASONS } from '../src/model/errors.ts';

for (const [path, render] of Object.entries(PAGES)) {
  test(`${path} is what the code says`, () => {
    const written = readFileSync(join(import.meta.dirname, '..', path), 'utf8');
    assert.equal(written, render(), 'run: npm run docs');
  });
}

test('the error page has one row per code and one per reason', () => {
  const rows = renderErrors()
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  assert.deepEqual(
    rows.map((row) => row.split('`')[1]),
    [...Object.keys(ERRORS), ...Object.keys(REASONS)],
  );
});
