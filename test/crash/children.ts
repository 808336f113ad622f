/** Starts the workload in processes of its own, a few at a time. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { dirname, join } from 'node:path';
import { makeChildCode } from './child-code.ts';
import type { Folders } from './folders.ts';

export interface ChildEnd {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stderr: string;
}

/** Cores of the machines this runs on; more children at once only make each of them slower. */
const AT_ONCE = 2;

/** A process that lives a tenth of a second needs no second look at its garbage. */
const SHORT_LIVED = ['--min-semi-space-size=64', '--max-semi-space-size=64'];

export class Children {
  readonly #script: string;

  constructor(scratch: string) {
    const folder = join(scratch, 'code');
    fs.mkdirSync(folder);
    this.#script = makeChildCode(folder);
  }

  /** Another script beside the workload. */
  path(name: string): string {
    return join(dirname(this.#script), name);
  }

  command(folders: Folders): string[] {
    return [process.execPath, this.#script, folders.root, folders.data];
  }

  run(folders: Folders, env: Record<string, string>): Promise<ChildEnd> {
    const [node = '', ...args] = this.command(folders);
    return runChild([node, ...SHORT_LIVED, ...args], env);
  }
}

/** No child needs a tenth of this; one that hangs must not hang the tests. */
const TIMEOUT_MS = 60_000;

export function runChild(command: readonly string[], env: Record<string, string>): Promise<ChildEnd> {
  const [file, ...args] = command;
  const child = spawn(file as string, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    // A group of its own, so that what runs under strace can be ended with it.
    detached: true,
    // The copied code keeps a compile cache of its own (workload.ts); in that of the test run it would pile up.
    env: { ...process.env, NODE_OPTIONS: '', NODE_COMPILE_CACHE: undefined, ...env },
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const timer = setTimeout(() => {
    stderr += `it had not ended after ${TIMEOUT_MS} ms`;
    process.kill(-(child.pid as number), 'SIGKILL');
  }, TIMEOUT_MS);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, stderr });
    });
  });
}

/** Does something for each item, a few at a time. */
export async function eachAtOnce<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const lane = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await run(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}
