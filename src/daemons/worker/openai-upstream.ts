/**
 * A server that the worker starts for itself. It lives in a process group of its own, which ends with the worker
 * however that ends: a shell beside it holds a pipe from us, and takes the group along when the pipe breaks.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import type { Env } from '../../kit/env/env.ts';
import { poll } from '../../kit/poll.ts';
import { signal } from '../../kit/process/identity.ts';
import { OrchdError } from '../../model/errors.ts';

/** It outlasts the order to end, so that it can take along what the server has left behind. */
const WATCH = `exec 3<&0 </dev/null
trap : TERM
(cat <&3 >/dev/null; trap '' TERM; kill -TERM 0; sleep 5; kill -KILL 0) &
"$@" 3<&-
kill -KILL 0`;

const TERM_MS = 5000;
const EXIT_POLL_MS = 25;

export class Upstream {
  readonly port: number;
  /** Settles when it has ended, whoever ended it. */
  readonly gone: Promise<OrchdError>;
  readonly #env: Env;
  readonly #child: ChildProcess;

  private constructor(env: Env, child: ChildProcess, port: number) {
    this.#env = env;
    this.#child = child;
    this.port = port;
    this.gone = new Promise((resolve) => {
      const ended = (): void =>
        resolve(new OrchdError('WORKER_UNAVAILABLE', 'the upstream server has ended'));
      child.on('exit', ended).on('error', ended);
    });
    child.stdin?.on('error', () => undefined);
  }

  /** With `{port}` and `{model}` filled in. */
  static async start(env: Env, command: readonly string[], model: string): Promise<Upstream> {
    const port = await freePort();
    const words = command.map((word) => word.replaceAll('{port}', String(port)).replaceAll('{model}', model));
    // Standard output belongs to the log of the worker.
    const child = spawn('/bin/sh', ['-c', WATCH, 'upstream', ...words], {
      detached: true,
      stdio: ['pipe', 2, 2],
      env: foreignEnvironment(),
    });
    return new Upstream(env, child, port);
  }

  /** Asks all of it to end, and makes it where it does not. */
  async stop(): Promise<void> {
    this.#signal('SIGTERM');
    const times = { everyMs: EXIT_POLL_MS, atMostMs: TERM_MS };
    await poll(this.#env, times, () => !this.#signal(0) || undefined);
    this.#signal('SIGKILL');
  }

  /** False when nothing of the group is left. */
  #signal(name: NodeJS.Signals | 0): boolean {
    const { pid } = this.#child;
    return pid !== undefined && signal(-pid, name);
  }
}

/** What is ours is none of its business, secrets least of all. */
function foreignEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ORCHD_')));
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
