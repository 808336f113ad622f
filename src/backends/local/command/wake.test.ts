import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { CommandKit } from '../../../../test/fakes/command-kit.ts';
import { realEnv } from '../../../kit/env/real.ts';
import { Wake } from './wake.ts';

const never = new AbortController().signal;

describe('a reader that waits', () => {
  test('is woken by a change, also by one before it began to wait', async (t) => {
    const kit = new CommandKit(t);
    const file = join(kit.root, 'file');
    const wake = new Wake(realEnv(), kit.root);
    t.after(() => wake.close());
    fs.writeFileSync(file, '1');
    while ((await wake.wait(never)) !== 'changed');
    const waiting = wake.wait(never);
    fs.appendFileSync(file, '2');
    assert.equal(await waiting, 'changed');
  });

  test('looks by itself where it is not told', async (t) => {
    const kit = new CommandKit(t);
    const unwatched = new Wake(realEnv(), join(kit.root, 'nowhere'));
    assert.equal(await unwatched.wait(never), 'later');
    const quiet = new Wake(realEnv(), kit.root);
    t.after(() => quiet.close());
    while ((await quiet.wait(never)) !== 'later');
  });

  test('stops when it is told to, before and while it waits', async (t) => {
    const kit = new CommandKit(t);
    const wake = new Wake(
      { ...realEnv(), timers: { after: () => () => undefined, soon: () => undefined } },
      kit.root,
    );
    t.after(() => wake.close());
    const abort = new AbortController();
    const waiting = wake.wait(abort.signal);
    abort.abort();
    await waiting;
    await wake.wait(abort.signal);
  });
});
