import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';

const SCRIPT = `
  import { Interrupt } from '${new URL('./interrupt.ts', import.meta.url)}';
  const interrupt = new Interrupt();
  setInterval(() => undefined, 1000);
  void interrupt.asked.then(() => console.log('asked'));
  console.log('ready');
`;

/** A process that hears the first signal and goes on regardless. */
async function stubborn(): Promise<{ child: ChildProcess; said(word: string): Promise<void> }> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', SCRIPT]);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  const said = async (word: string): Promise<void> => {
    while (!text.includes(word)) await once(child.stdout, 'data');
  };
  await said('ready');
  return { child, said };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('the first signal asks, a second one ends the process at once', async () => {
  const { child, said } = await stubborn();
  child.kill('SIGINT');
  await said('asked');
  await pause(400);
  assert.equal(child.exitCode, null);
  child.kill('SIGTERM');
  const [code] = await once(child, 'exit');
  assert.equal(code, 130);
});

test('a signal that npm repeats counts once', async () => {
  const { child, said } = await stubborn();
  child.kill('SIGINT');
  await said('asked');
  child.kill('SIGINT');
  await pause(400);
  assert.equal(child.exitCode, null);
  child.kill('SIGKILL');
  await once(child, 'exit');
});
