/** Runs a measurement in a process of its own, so that measurements share neither heap nor compiled code. */
import { fork } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('./child-main.ts', import.meta.url));

export type Outcome = { readonly value: unknown } | { readonly error: string };

/** Calls the `measure` function that a module exports, with arguments and result as JSON. */
export function inChild<Args, Result>(
  module: { readonly measure: (args: Args) => Promise<Result>; readonly url: string },
  args: Args,
  flags: readonly string[] = [],
): Promise<Result> {
  const child = fork(MAIN, [module.url, JSON.stringify(args)], {
    execArgv: [...flags, ...profileFlags()],
    stdio: ['ignore', 2, 2, 'ipc'],
  });
  return new Promise((resolve, reject) => {
    let outcome: Outcome | undefined;
    child.once('message', (message: Outcome) => {
      outcome = message;
    });
    child.once('error', reject);
    // Resolved on exit, not on the message: the child uses the machine until then, and the next one must not overlap.
    child.once('exit', (code, signal) => {
      if (!outcome) reject(new Error(`the child ended with ${signal ?? code} and no result`));
      else if ('error' in outcome) reject(new Error(outcome.error));
      else resolve(outcome.value as Result);
    });
  });
}

/** With BENCH_PROF set to a folder, the flags that write a CPU profile there, in the subfolder `name`. */
export function profileFlags(name = ''): string[] {
  const folder = process.env['BENCH_PROF'];
  return folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${join(folder, name)}`];
}
