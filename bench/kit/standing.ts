/** A process that stays until it is told to go: a server, or a client that holds connections open. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { profileFlags } from './child.ts';

const MAIN = fileURLToPath(new URL('./standing-main.ts', import.meta.url));

/** What it is asked for. It ends without ceremony: its data goes with the bench. */
export type Order = 'memory' | 'stop';
export type Said = { readonly value: unknown } | { readonly error: string };

/** Hold it by `await using`: it then goes at the end of the block, however that ends. */
export interface Standing<Value> extends AsyncDisposable {
  readonly pid: number;
  /** What its `start` returned: the port of a server. */
  readonly value: Value;
  /** Without garbage: it must have been started with --expose-gc. */
  memory(): Promise<NodeJS.MemoryUsage>;
}

/** Calls the `start` function that a module exports; the name is that of the folder of its CPU profile. */
export async function standing<Args, Value>(
  name: string,
  module: { readonly start: (args: Args) => Promise<Value>; readonly url: string },
  args: Args,
  flags: readonly string[] = [],
): Promise<Standing<Value>> {
  // What it says on standard output is thrown away, as by a server whose log nobody reads.
  const child = fork(MAIN, [module.url, JSON.stringify(args ?? null)], {
    execArgv: [...flags, ...profileFlags(name)],
    stdio: ['ignore', 'ignore', 2, 'ipc'],
  });
  const gone = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
  });
  const said = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      void gone.then(() => reject(new Error(`${name} ended too early`)));
      child.once('message', (message: Said) => {
        if ('error' in message) reject(new Error(`${name}: ${message.error}`));
        else resolve(message.value);
      });
    });
  const ask = (order: Order): Promise<unknown> => {
    child.send(order);
    return said();
  };
  return {
    value: (await said()) as Value,
    pid: child.pid ?? 0,
    memory: () => ask('memory') as Promise<NodeJS.MemoryUsage>,
    async [Symbol.asyncDispose]() {
      if (child.connected) child.send('stop' satisfies Order);
      await gone;
    },
  };
}
