import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { writeTinyModel } from '../../test/fakes/gguf.ts';
import { realEnv } from '../kit/env/real.ts';
import { ownModels } from './own-models.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'orchd-own-')));
after(() => rmSync(folder, { recursive: true }));

const modelAt = (...path: string[]): string => {
  const file = join(folder, ...path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeTinyModel(file);
  return file;
};
const env = realEnv();

test('a file is called by its name, and lies where its links lead', async () => {
  const blob = modelAt('blobs', 'abc');
  symlinkSync(blob, join(folder, 'linked.gguf'));
  const given = [modelAt('a', 'My tiny (1).gguf'), join(folder, 'linked.gguf'), modelAt('a', '_x.GGUF')];
  assert.deepEqual(await ownModels(env, given), [
    { name: 'My-tiny-1-', ref: `file:${given[0]}`, folder: join(folder, 'a') },
    { name: 'linked', ref: `file:${given[1]}`, folder: join(folder, 'blobs') },
    { name: 'x', ref: `file:${given[2]}`, folder: join(folder, 'a') },
  ]);
});

test('references are taken as they are, each once', async () => {
  const models = await ownModels(env, ['hf:org/repo', 'hf:org/other::file=q/a.gguf', 'demo:d', 'demo:d']);
  assert.deepEqual(
    models.map(({ name, folder: where }) => [name, where]),
    [
      ['repo', undefined],
      ['a', undefined],
      ['d', undefined],
    ],
  );
});

test('two files of one name, and a model that is not named like one, are refused', async () => {
  const two = [modelAt('a', 'tiny.gguf'), modelAt('b', 'tiny.gguf')];
  await assert.rejects(ownModels(env, two), { message: /would both be called "tiny"/ });
  await assert.rejects(ownModels(env, [modelAt('a', 'tiny.bin')]), {
    code: 'INVALID_PARAMS',
    details: { field: 'model' },
  });
});
