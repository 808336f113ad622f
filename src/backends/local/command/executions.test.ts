import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
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

test('records that are links or pipes are neither followed nor waited for, and forged ones are none', {
  timeout: 20_000,
}, async (t) => {
  const kit = new CommandKit(t);
  const paths = kit.paths('job:1');
  fs.mkdirSync(paths.folder, { recursive: true });
  spawnSync('mkfifo', [paths.owner]);
  const exited = { why: 'exit', code: 0, signal: null, stderr_tail: '', ended_at: 1 };
  fs.writeFileSync(join(kit.root, 'outside'), JSON.stringify(exited));
  fs.symlinkSync(join(kit.root, 'outside'), paths.exit);
  const state = async (): Promise<string> => (await readTokenState(realEnv().disk, paths)).is;
  assert.equal(await state(), 'orphaned');
  for (const forged of [
    { why: 'weird' },
    { stderr_tail: 1 },
    { output_bytes: -1 },
    { output_bytes: 'all' },
  ]) {
    fs.rmSync(paths.exit);
    fs.writeFileSync(paths.exit, JSON.stringify({ ...exited, ...forged }));
    assert.equal(await state(), 'orphaned', JSON.stringify(forged));
  }
  fs.writeFileSync(paths.exit, JSON.stringify(exited));
  assert.equal(await state(), 'ended');
});
