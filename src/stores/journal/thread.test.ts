import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { diskErrorCode } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import { diskFailure } from '../disk-failure.ts';
import { NO_CHECKPOINT } from './checkpoint/manifest.ts';
import { paths } from './layout.ts';
import { ThreadBackground } from './thread.ts';

test('the code of a disk error on the thread reaches the caller', async (t) => {
  const folder = fs.mkdtempSync(join(tmpdir(), 'orchd-thread-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const where = paths(folder);
  const background = new ThreadBackground(where, realEnv().timers);
  t.after(() => background.close());
  fs.mkdirSync(where.log);
  const order = { base: NO_CHECKPOINT, upTo: 0, indexedUpTo: 0, at: 0 };
  // The folder of the checkpoint's parts does not exist.
  const failure = await background.merge(order).catch((error: unknown) => error);
  assert.equal(diskErrorCode(failure), 'ENOENT');
  assert.match(diskFailure(failure, 'no checkpoint').message, /\(ENOENT\)$/);
});
