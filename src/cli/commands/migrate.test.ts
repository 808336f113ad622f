/** How places are read, and the output of a migration. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../config/load.ts';
import type { StoreDescriptor } from '../../stores/descriptor.ts';
import type { MigrationReport } from '../../stores/migration/migrate.ts';
import { STORES } from '../../stores/registry.ts';
import { UsageError } from '../command.ts';
import { placeOf } from '../place.ts';
import { ProgressLine, reportText } from '../text/migrate-text.ts';
import { migrate } from './migrate.ts';

const config = loadConfig({ text: 'mariadb: { url: "mariadb://u:secret@db:3307/jobs", unsafe: true }' });

test('a place is a folder or a database, as written or as configured', async () => {
  assert.equal((await placeOf('journal', config, '/data')).folder, '/data');
  assert.equal((await placeOf('journal:/a:b', config, '/data')).folder, '/a:b');
  for (const text of ['mariadb', 'mariadb://u:secret@db:3307/jobs']) {
    const place = await placeOf(text, config, '/data');
    assert.deepEqual([place.label, place.folder], ['the database jobs at db:3307', undefined]);
  }
});

test('every kind of place is in the help', () => {
  for (const { migration } of Object.values<StoreDescriptor>(STORES)) {
    if (migration) assert.ok(migrate.usage.includes(`  ${migration.form} `), migration.form);
  }
});

test('a text that is no place is refused, and the message does not repeat it', async () => {
  for (const text of ['', 'journal:', 'maria', 'mysql://u:secret@h/d', 'mariadb://u:secret@h:x/d']) {
    await assert.rejects(placeOf(text, config, '/data'), (error: Error) => {
      assert.ok(error instanceof UsageError);
      return !error.message.includes('secret');
    });
  }
  await assert.rejects(placeOf('mariadb', loadConfig({}), '/data'), /set mariadb\.url/);
});

test('progress is printed once per second, and when a step begins or ends', () => {
  const said: string[] = [];
  let now = 0;
  const terminal = { isPerson: false, print: () => undefined, complain: (text: string) => said.push(text) };
  const line = new ProgressLine(terminal as never, () => now);
  const show = (doing: 'copy' | 'verify', jobs: number, at: number): void => {
    now = at;
    line.show({ doing, jobs, of: 9 });
  };
  show('copy', 1, 0);
  show('copy', 2, 500);
  show('copy', 3, 1000);
  show('copy', 9, 1001);
  show('verify', 1, 1002);
  show('verify', 2, 1003);
  assert.deepEqual(said, [
    'copied 1 of 9 jobs',
    'copied 3 of 9 jobs',
    'copied 9 of 9 jobs',
    'read back 1 of 9 jobs',
  ]);
});

test('a report says what was copied, or that it had already been copied', () => {
  const report: MigrationReport = {
    from: 'the journal /a',
    to: 'the database b at c',
    seq: 10,
    epoch: 1001,
    already: false,
    live: 1,
    ended: 2,
    attempts: 3,
    bodies: 4,
    bodyBytes: 5,
    others: 6,
    keys: 0,
    charges: 7,
    sessions: 8,
    hash: 'abc',
  };
  assert.match(
    reportText(report),
    /^Copied the journal \/a to the database b at c\.\n1 live and 2 ended jobs/,
  );
  assert.match(
    reportText({ ...report, already: true }),
    /^Everything in .* is already in the database b at c/,
  );
});
