/**
 * Runs a file module in a process of its own: `host-main.ts scan|handle FILE`. What it tells the brain goes over
 * descriptor 3, one JSON text a line, so that a module may print to standard output. It reads standard input only to
 * learn of ends, and to end with the brain.
 */
import { once } from 'node:events';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';

const CHANNEL = 3;

interface FileModule {
  /** A function that returns the proposals, or the proposals themselves. */
  readonly scan?: unknown;
  readonly handle?: unknown;
}

type Proposals = Iterable<unknown> | AsyncIterable<unknown> | undefined | null;

/**
 * Ends this process group when the brain has died, on a thread of its own: a module that spins would otherwise take a
 * core until the next brain of the same data folder starts.
 */
const END_WITH_PARENT = `const { workerData: parent } = require('node:worker_threads');
setInterval(() => { if (process.ppid !== parent) process.kill(-process.pid, 'SIGKILL'); }, 500);`;
new Worker(END_WITH_PARENT, {
  eval: true,
  workerData: process.ppid,
  // V8 reserves 512 MiB for the code of a thread otherwise, and the memory limit of the process counts what is reserved.
  resourceLimits: { codeRangeSizeMb: 16 },
}).unref();

const channel = new Socket({ fd: CHANNEL, readable: false, writable: true });
// The brain is gone, or wants no more.
channel.on('error', () => process.exit(1));

async function tell(value: unknown): Promise<void> {
  if (!channel.write(`${JSON.stringify(value) ?? 'null'}\n`)) await once(channel, 'drain');
}

async function scan({ scan: given }: FileModule): Promise<void> {
  process.stdin.on('end', () => process.exit(1)).resume();
  if (given === undefined) throw new Error('the module exports no scan()');
  const found: unknown = typeof given === 'function' ? await given() : given;
  for await (const proposal of (found as Proposals) ?? []) await tell(proposal);
}

async function handle({ handle: given }: FileModule): Promise<void> {
  await tell({ handles: typeof given === 'function' });
  if (typeof given !== 'function') return;
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      await given(JSON.parse(line));
      await tell({ ok: true });
    } catch (error) {
      await tell({ ok: false, error: messageOf(error) });
    }
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const [mode, file = ''] = process.argv.slice(2);
try {
  const module = (await import(pathToFileURL(file).href)) as FileModule;
  await (mode === 'handle' ? handle(module) : scan(module));
  channel.end();
  await once(channel, 'finish');
  process.exit(0);
} catch (error) {
  // The last line is what `orchd modules` shows.
  process.stderr.write(`${(error as Error | undefined)?.stack ?? ''}\n${messageOf(error)}\n`, () =>
    process.exit(1),
  );
}
