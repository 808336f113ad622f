import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { test } from 'node:test';

/** Runs on after the first signal, says how many signals it has received, and skips time when it is told to. */
const SCRIPT = `
  import { Interrupt } from '${new URL('./interrupt.ts', import.meta.url)}';
  const realNow = performance.now.bind(performance);
  let skippedMs = 0;
  performance.now = () => realNow() + skippedMs;
  const interrupt = new Interrupt();
  void interrupt.received.then(() => console.log('received'));
  let signals = 0;
  for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => console.log('signal ' + ++signals));
  process.stdin.setEncoding('utf8').on('data', (ms) => {
    skippedMs += Number(ms);
    console.log('skipped');
  });
  console.log('ready');
`;

class InterruptedProcess {
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  #text = '';

  constructor() {
    const args = ['--input-type=module', '--eval', SCRIPT];
    this.child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      this.#text += piece;
    });
  }

  async says(words: string): Promise<void> {
    while (!this.#text.includes(words)) {
      assert.ok(!this.child.stdout.readableEnded, `it ended before it said "${words}"`);
      await Promise.race([once(this.child.stdout, 'data'), once(this.child.stdout, 'end')]);
    }
  }

  async skip(ms: number): Promise<void> {
    this.child.stdin.write(String(ms));
    await this.says('skipped');
  }
}

test('the first signal resolves `received`, a second one ends the process at once', {
  timeout: 20_000,
}, async () => {
  const stubborn = new InterruptedProcess();
  await stubborn.says('ready');
  stubborn.child.kill('SIGINT');
  await stubborn.says('received');
  await stubborn.skip(400);
  stubborn.child.kill('SIGTERM');
  const [code] = await once(stubborn.child, 'exit');
  assert.equal(code, 130);
});

test('a signal that npm repeats counts once', { timeout: 20_000 }, async () => {
  const stubborn = new InterruptedProcess();
  await stubborn.says('ready');
  stubborn.child.kill('SIGINT');
  await stubborn.says('received');
  stubborn.child.kill('SIGINT');
  await stubborn.says('signal 2');
  await stubborn.skip(400);
  assert.equal(stubborn.child.exitCode, null);
  stubborn.child.kill('SIGKILL');
  await once(stubborn.child, 'exit');
});
