/** A process that runs until the bench stops it: a server, or a client that holds connections open. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { profileFlags } from './child.ts';

const MAIN = fileURLToPath(new URL('./background-process-main.ts', import.meta.url));

/** `memory` requests the memory usage. `stop` exits at once: the data is deleted with the bench. */
export type ProcessCommand = 'memory' | 'stop';
export type ProcessReply = { readonly value: unknown } | { readonly error: string };

/** Use it with `await using`, so that the process is stopped at the end of the block. */
export interface BackgroundProcess<Value> extends AsyncDisposable {
  readonly pid: number;
  /** The return value of the module's `start`; for a server, its port. */
  readonly value: Value;
  /** Memory usage after garbage collection; the process needs the flag --expose-gc. */
  memory(): Promise<NodeJS.MemoryUsage>;
}

/** Calls the exported `start` of a module in a new process; `name` is also the folder of its CPU profile. */
export async function startProcess<Args, Value>(
  name: string,
  module: { readonly start: (args: Args) => Promise<Value>; readonly url: string },
  args: Args,
  flags: readonly string[] = [],
): Promise<BackgroundProcess<Value>> {
  // Standard output is discarded, like the log of a server that nobody reads.
  const child = fork(MAIN, [module.url, JSON.stringify(args ?? null)], {
    execArgv: [...flags, ...profileFlags(name)],
    stdio: ['ignore', 'ignore', 2, 'ipc'],
  });
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
  });
  const nextReply = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      void exited.then(() => reject(new Error(`${name} ended too early`)));
      child.once('message', (message: ProcessReply) => {
        if ('error' in message) reject(new Error(`${name}: ${message.error}`));
        else resolve(message.value);
      });
    });
  const request = (command: ProcessCommand): Promise<unknown> => {
    child.send(command);
    return nextReply();
  };
  return {
    value: (await nextReply()) as Value,
    pid: child.pid ?? 0,
    memory: () => request('memory') as Promise<NodeJS.MemoryUsage>,
    async [Symbol.asyncDispose]() {
      if (child.connected) child.send('stop' satisfies ProcessCommand);
      await exited;
    },
  };
}
