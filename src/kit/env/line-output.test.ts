import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { LineOutput } from './line-output.ts';

test('lines arrive whole and in order', async (t) => {
  const folder = fs.mkdtempSync(join(tmpdir(), 'orchd-lines-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const path = join(folder, 'log');
  const output = new LineOutput(fs.openSync(path, 'w'));
  const lines = Array.from({ length: 5000 }, (_, n) => `${n} ü ${'x'.repeat(n % 50)}\n`);
  for (const [n, line] of lines.entries()) {
    output.write(line);
    if (n % 700 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await output.flush();
  assert.equal(fs.readFileSync(path, 'utf8'), lines.join(''));
});

/** Logs 64 MB into a pipe that nobody reads, reports that on stderr, and ends. */
const FLOOD = `
import { LineOutput } from ${JSON.stringify(new URL('./line-output.ts', import.meta.url).href)};
const output = new LineOutput(1);
const line = 'x'.repeat(1000) + '\\n';
for (let n = 0; n < 64_000; n++) {
  output.write(line);
  if (n % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
}
process.stderr.write('done');
process.stdin.once('data', async () => {
  output.write('last\\n');
  await output.flush();
  process.exit(0);
});
`;

test('a stalled reader does not block the writer; the dropped lines are counted once it reads on', async () => {
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', FLOOD]);
  await new Promise((resolve) => child.stderr.once('data', resolve));
  child.stdin.write('go');
  let text = '';
  for await (const chunk of child.stdout) text += chunk;
  const lines = text.trimEnd().split('\n');
  const notes = lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as { count: number });
  const dropped = notes.reduce((sum, { count }) => sum + count, 0);
  assert.ok(dropped > 0);
  assert.equal(lines.length - notes.length + dropped, 64_001, 'every line is there or counted');
});

test('flushNow writes the waiting lines synchronously', (t) => {
  const folder = fs.mkdtempSync(join(tmpdir(), 'orchd-lines-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const path = join(folder, 'log');
  const output = new LineOutput(fs.openSync(path, 'w'));
  output.write('a\n');
  output.flushNow();
  assert.equal(fs.readFileSync(path, 'utf8'), 'a\n');
});

/** Logs more than a pipe holds and exits: at once, or as soon as the pipe is full. */
const LOG_AND_EXIT = `
import fs from 'node:fs';
import { LineOutput } from ${JSON.stringify(new URL('./line-output.ts', import.meta.url).href)};
// As the command does; from here on the pipe does not block.
void process.stdout.isTTY;
const output = new LineOutput(1);
process.once('exit', () => output.flushNow());
for (let n = 0; n < 3000; n++) output.write(n + ' ' + 'x'.repeat(200) + '\\n');
if (process.argv.at(-1) === 'at once') process.exit(0);
const { write } = fs;
fs.write = (...args) => {
  const heard = args.pop();
  write(...args, (error, written) => {
    heard(error, written);
    if (error?.code === 'EAGAIN') process.exit(0);
  });
};
`;

test('flushNow waits for the reader of a full pipe', async () => {
  for (const how of ['at once', 'when it is full']) {
    const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', LOG_AND_EXIT, how]);
    let text = '';
    for await (const chunk of child.stdout) text += chunk;
    const numbers = text
      .trimEnd()
      .split('\n')
      .map((line) => Number.parseInt(line, 10));
    assert.deepEqual(
      numbers,
      Array.from({ length: 3000 }, (_, n) => n),
      how,
    );
  }
});
