import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CommandKit, offerOf, run, sh } from '../../../../test/fakes/command-kit.ts';
import type { Disk } from '../../../kit/env/env.ts';
import { realEnv } from '../../../kit/env/real.ts';
import { readTokenState } from './executions.ts';

test('a folder that comes into place while it is read is no orphan: it is read once more', async (t) => {
  const kit = new CommandKit(t);
  await run(kit.backend(sh('echo done')), offerOf('job:1').token);
  const paths = kit.paths('job:1');
  const aside = join(kit.root, 'aside');
  fs.renameSync(paths.folder, aside);
  const { disk } = realEnv();
  // The keeper's rename happens after the reader has looked for its last file, and before it looks for the folder.
  const racing: Disk = Object.assign(Object.create(disk) as Disk, {
    stat: (path: string) => {
      if (path === paths.folder && fs.existsSync(aside)) fs.renameSync(aside, paths.folder);
      return disk.stat(path);
    },
  });
  assert.equal((await readTokenState(racing, paths)).is, 'ended');
});
