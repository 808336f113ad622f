/** The doctor tells a copy that a start would refuse, and what to do with it; the data in it is not damaged. */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { linkFolder } from '../../../../test/fakes/copy-folder.ts';
import { isHeld } from '../../../cli/lock-probe.ts';
import { createOrchestrator } from '../../../index.ts';
import { realEnv } from '../../../kit/env/real.ts';
import { claimFolder } from '../../../kit/folder-identity.ts';
import { type Diagnosis, examine } from './doctor.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-doctor-copies-'));
const original = join(root, 'original');
const { disk } = realEnv();
after(() => rmSync(root, { recursive: true, force: true }));

before(async () => {
  const brain = await createOrchestrator({ data: original, backends: [] });
  await brain.stop();
  for (const inside of ['executions/pay', 'pool']) {
    mkdirSync(join(original, inside), { recursive: true });
    await claimFolder(realEnv(), join(original, inside));
  }
  writeFileSync(join(original, 'executions', 'a file'), '');
});

const look = (folder: string): Promise<Diagnosis> => examine(disk, folder, { isHeld });

const starts = ({ findings }: Diagnosis): string[] =>
  findings
    .filter(({ check }) => check === 'start')
    .map(({ verdict, position, sentence }) => `${verdict} ${position ?? ''} ${sentence}`);

test('a copy, and each folder in it, is told to need --this-is-a-copy', async () => {
  const copy = join(root, 'copy');
  cpSync(original, copy, { recursive: true });
  await assert.rejects(createOrchestrator({ data: copy, backends: [] }), { code: 'FOLDER_COPIED' });
  const found = await look(copy);
  assert.equal(found.verdict, 'warn');
  assert.deepEqual(
    starts(found).map((line) => /^warn (\S+) orchd refuses to start: .*--this-is-a-copy$/.exec(line)?.[1]),
    ['.', 'executions/pay', 'pool'],
  );
  const brain = await createOrchestrator({ data: copy, backends: [], isCopy: true });
  await brain.stop();
  assert.deepEqual(
    starts(await look(copy)).map((line) => line.split(' ')[1]),
    ['executions/pay', 'pool'],
    'the data folder is its own now',
  );
});

test('a folder that shares its files with another one is told so, on both sides', async () => {
  const linked = join(root, 'linked');
  linkFolder(original, linked);
  for (const folder of [original, linked]) {
    const found = await look(folder);
    assert.equal(found.verdict, 'warn');
    assert.match(
      starts(found).join('\n'),
      /^warn \. .* by hard links; remove the other one, or copy this one/,
    );
  }
  rmSync(linked, { recursive: true });
  assert.deepEqual(starts(await look(original)), ['ok  orchd starts from this folder']);
});
