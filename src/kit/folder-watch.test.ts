import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { realEnv } from './env/real.ts';
import { FolderWatch } from './folder-watch.ts';

const { timers } = realEnv();
const never = new AbortController().signal;

function folderOf(t: TestContext): string {
  const folder = fs.mkdtempSync(join(tmpdir(), 'orchd-watch-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  return folder;
}

describe('a reader that waits', () => {
  test('is woken by a change', async (t) => {
    const folder = folderOf(t);
    const file = join(folder, 'file');
    const watch = new FolderWatch(timers, folder);
    t.after(() => watch.close());
    fs.writeFileSync(file, '1');
    while ((await watch.wait(never)) !== 'changed');
    const waiting = watch.wait(never);
    fs.appendFileSync(file, '2');
    assert.equal(await waiting, 'changed');
  });

  test('is woken at once by a change from before the wait', { timeout: 20_000 }, async (t) => {
    const folder = folderOf(t);
    const watch = new FolderWatch({ after: () => () => undefined, soon: () => undefined }, folder);
    const other = fs.watch(folder);
    t.after(() => {
      watch.close();
      other.close();
    });
    // A single change: the second watcher is notified after the first.
    fs.mkdirSync(join(folder, 'inner'));
    await once(other, 'change');
    assert.equal(await watch.wait(never), 'changed');
  });

  test('polls where no notification comes', async (t) => {
    const folder = folderOf(t);
    const unwatched = new FolderWatch(timers, join(folder, 'nowhere'));
    assert.equal(await unwatched.wait(never), 'later');
    const quiet = new FolderWatch(timers, folder);
    t.after(() => quiet.close());
    while ((await quiet.wait(never)) !== 'later');
  });

  test('stops when the signal is aborted, before and during a wait', async (t) => {
    const watch = new FolderWatch({ after: () => () => undefined, soon: () => undefined }, folderOf(t));
    t.after(() => watch.close());
    const abort = new AbortController();
    const waiting = watch.wait(abort.signal);
    abort.abort();
    await waiting;
    await watch.wait(abort.signal);
  });
});
