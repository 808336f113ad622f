import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createOrchestrator } from '../../src/index.ts';
import { tempFolder } from './flow-kit.ts';

const root = join(import.meta.dirname, '../..');
const example = join(root, 'examples/embedded.ts');

test('the example gives its first result, ends by itself, and finds its folder again', async (t) => {
  const data = tempFolder(t);
  for (let round = 0; round < 2; round++) {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [example, data], {
      timeout: 30_000,
    });
    assert.deepEqual([stdout, stderr], ['Hello, Ada!\n', '']);
  }
  const orchestrator = await createOrchestrator({ data, backends: [] });
  const { jobs } = await orchestrator.list();
  await orchestrator.stop();
  assert.deepEqual(
    jobs.map(({ state }) => state),
    ['succeeded', 'succeeded'],
  );
});

test('it is ten lines of code', () => {
  const code = readFileSync(example, 'utf8').replace(/\/\*\*[\s\S]*?\*\//, '');
  const lines = code.split('\n').filter((line) => line.trim() !== '');
  assert.ok(lines.length <= 10, `${lines.length} lines`);
});
