/**
 * Plants one bug at a time into a copy of the source and sees that a suite notices it, for the right reason. A
 * suite that never fails proves nothing. That the same suites pass where nothing is planted is seen by running
 * them: they are part of `npm test`. One bug of ten is planted there; `CRASH_ALL=1` plants them all, `PLANTED_ONLY=text`
 * those whose name contains it.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { eachAtOnce } from './children.ts';
import { scratchFolder } from './folders.ts';
import { CATCHERS, type Catcher, type PlantedBug } from './planted/catchers.ts';
import { PLANTED } from './planted-bugs.ts';
import { straceMissing } from './strace.ts';

const ROOT = join(import.meta.dirname, '../..');
const COPIED = ['src', 'test/crash', 'test/fakes', 'test/sim', 'test/flow', 'package.json'];
const TIMEOUT_MS = 60_000;

const { PLANTED_ONLY: only = '', CRASH_ALL: all } = process.env;
const SAMPLE = 10;
const noStrace = straceMissing();
const bugs = PLANTED.filter(
  ({ name, catcher }, at) =>
    name.includes(only) &&
    (only !== '' || all === '1' || at % SAMPLE === 0) &&
    !(catcher === 'strace' && noStrace !== undefined),
);
if (noStrace !== undefined) console.log(`# some bugs are not planted: ${noStrace}`);
const scratch = scratchFolder('orchd-planted-');
after(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** Without what makes a runner inside a runner report to the outer one, and a catcher walk more than it needs to. */
const { NODE_TEST_CONTEXT: _, NODE_OPTIONS: __, CRASH_ALL: ___, ...INHERITED } = process.env;
/** Copies are used again for the next bug, so all files but one have been compiled before. */
const ENVIRONMENT = { ...INHERITED, NODE_COMPILE_CACHE: join(scratch, 'compiled') };

/** Copies of the source without a bug in them. */
const copies: string[] = [];
let copied = 0;

function takeCopy(): string {
  const free = copies.pop();
  if (free !== undefined) return free;
  const copy = join(scratch, `copy-${++copied}`);
  for (const part of COPIED) fs.cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  fs.symlinkSync(fs.realpathSync(join(ROOT, 'node_modules')), join(copy, 'node_modules'));
  return copy;
}

/** Returns how to take the bug out again. */
function plant(copy: string, { name, file, find, replace }: PlantedBug): () => void {
  const path = join(copy, file);
  const text = fs.readFileSync(path, 'utf8');
  assert.equal(text.split(find).length, 2, `"${name}" cannot be planted: ${file} has another text`);
  fs.writeFileSync(
    path,
    text.replace(find, () => replace),
  );
  return () => fs.writeFileSync(path, text);
}

interface Verdict {
  readonly passed: boolean;
  readonly output: string;
  readonly seconds: string;
}

async function runCatcher(copy: string, { args, env }: Catcher): Promise<Verdict> {
  const startedAt = performance.now();
  const leftovers = fs.mkdtempSync(join(scratch, 'run-'));
  const child = spawn(process.execPath, args, {
    cwd: copy,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIMEOUT_MS,
    // A suite that fails leaves its folders behind.
    env: { ...ENVIRONMENT, CRASH_SCRATCH: leftovers, ...env },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const code = await new Promise((resolve) => child.on('close', resolve));
  fs.rmSync(leftovers, { recursive: true, force: true });
  return { passed: code === 0, output, seconds: ((performance.now() - startedAt) / 1000).toFixed(1) };
}

test('every bug can still be planted', () => {
  for (const { name, file, find } of PLANTED) {
    const text = fs.readFileSync(join(ROOT, file), 'utf8');
    assert.equal(text.split(find).length, 2, `"${name}" cannot be planted: ${file} has another text`);
  }
});

test('every planted bug is caught', async () => {
  const missed: string[] = [];
  await eachAtOnce(bugs, async (bug) => {
    const copy = takeCopy();
    const removeBug = plant(copy, bug);
    const { passed, output, seconds } = await runCatcher(copy, CATCHERS[bug.catcher]);
    const caught = !passed && bug.says.test(output);
    console.log(`# ${caught ? 'caught' : 'MISSED'}: ${bug.name}, by ${bug.catcher}, ${seconds} s`);
    if (!caught) missed.push(`${bug.name}: ${passed ? 'passes' : output.slice(0, 3000)}`);
    removeBug();
    copies.push(copy);
  });
  console.log(`# ${bugs.length - missed.length} of ${bugs.length} planted bugs caught`);
  assert.deepEqual(missed, []);
});
