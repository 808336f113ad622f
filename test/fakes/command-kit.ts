/** Command backends with real processes in a folder of their own; nothing of it outlives its test. */

import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { CommandBackend } from '../../src/backends/local/command/command.ts';
import {
  layoutOf,
  oldFolderName,
  pathsIn,
  pathsOf,
  type TokenPaths,
} from '../../src/backends/local/command/layout.ts';
import type { CommandBackendOptions, CommandType } from '../../src/backends/local/command/options.ts';
import { readStatus } from '../../src/backends/local/command/wrapper.ts';
import type { ExecutionEvent, ExecutionOutcome, Offer, OfferReply } from '../../src/core/ports/backend.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { identityOf, type ProcessIdentity } from '../../src/kit/process/identity.ts';
import type { Commander } from '../../src/model/worker-wire.ts';
import { type AskFields, askOf } from './folder-maker.ts';

export const WHO: Commander = { owner: 'brain', epoch: 1 };

/** A script as the command; the shell is the program here, not something in between. */
export const sh = (script: string, more: Partial<CommandType> = {}): CommandType => ({
  argv: ['sh', '-c', script],
  ...more,
});

export const js = (script: string, more: Partial<CommandType> = {}): CommandType => ({
  argv: [process.execPath, '-e', script],
  ...more,
});

export function offerOf(token: string, more: AskFields = {}, payload: unknown = {}): Offer {
  const ask = askOf(token.slice(0, token.lastIndexOf(':')), 1, { type: 'work', ...more });
  return { ...WHO, token, ask, payloadText: JSON.stringify(payload), attempt: 1, registry: undefined };
}

export interface Heard {
  readonly events: ExecutionEvent[];
  readonly text: string;
  readonly outcome: ExecutionOutcome | 'lost' | 'forgotten';
}

export class CommandKit {
  readonly root: string;
  readonly folder: string;
  readonly ledger: string;
  readonly #backends: CommandBackend[] = [];

  constructor(test: TestContext) {
    // Resolved, because processes are found by where they are.
    this.root = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'orchd-command-')));
    this.folder = join(this.root, 'executions');
    this.ledger = join(this.root, 'ledger');
    test.after(() => this.#clean());
  }

  backend(
    work: CommandType,
    more: Partial<CommandBackendOptions> = {},
    env: Env = realEnv(),
  ): CommandBackend {
    const options = { name: 'local', folder: this.folder, slots: 4, types: { work }, ...more };
    const backend = new CommandBackend(env, options);
    this.#backends.push(backend);
    return backend;
  }

  /** The paths of a token, of whatever brain has it; of `WHO` where none has. */
  paths(token: string): TokenPaths {
    const layout = layoutOf(this.folder);
    const names = fs.existsSync(layout.executions) ? fs.readdirSync(layout.executions) : [];
    const known = names.find((name) => name.endsWith(`.${oldFolderName(token)}`));
    return known === undefined ? pathsOf(layout, WHO.owner, token) : pathsIn(layout, known);
  }

  record<T>(path: string): T {
    return JSON.parse(fs.readFileSync(path, 'utf8')) as T;
  }

  /** The process of the wrapper of an execution, once it has begun. */
  wrapper(token: string): ProcessIdentity | undefined {
    const { pid } = readStatus(this.paths(token).status);
    return pid === undefined ? undefined : identityOf(pid);
  }

  /** Lines that commands wrote to the ledger. */
  runs(): string[] {
    return fs.existsSync(this.ledger) ? fs.readFileSync(this.ledger, 'utf8').split('\n').slice(0, -1) : [];
  }

  /** Processes of executions; wrappers are among them, keepers are not. */
  commands(): number[] {
    return this.processes(join(this.folder, 'executions'));
  }

  /** Processes that work below the folder of this test. */
  processes(below = this.root): number[] {
    return processesBelow(below);
  }

  async #clean(): Promise<void> {
    for (const backend of this.#backends) await backend.stop();
    await until(() => {
      for (const pid of this.processes()) kill(pid, 'SIGKILL');
      return this.processes().length === 0;
    });
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

/** Other processes that work below a folder. */
export function processesBelow(folder: string): number[] {
  return fs.readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const place = linkOf(`/proc/${name}/cwd`);
    return place?.startsWith(folder) ? [Number(name)] : [];
  });
}

function linkOf(path: string): string | undefined {
  try {
    return fs.readlinkSync(path);
  } catch {
    return undefined;
  }
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process had ended before the signal.
  }
}

/** Everything from a cursor to the end. */
export async function hear(backend: CommandBackend, token: string, from = 0): Promise<Heard> {
  const events: ExecutionEvent[] = [];
  const end = await backend.follow(token, from, (event) => events.push(event), WHO);
  return { events, text: textOf(events), outcome: end.is === 'ended' ? end.outcome : end.is };
}

export const textOf = (events: readonly ExecutionEvent[]): string =>
  events.map(({ type, data }) => (type === 'token' ? (data as { t: string }).t : '')).join('');

export async function run(
  backend: CommandBackend,
  token: string,
  payload: unknown = {},
): Promise<Heard & { readonly reply: OfferReply }> {
  const reply = await backend.offer(offerOf(token, {}, payload));
  return { reply, ...(await hear(backend, token)) };
}

const PATIENCE_MS = 60_000;

/** Waits for something that is going to be so; far longer than it takes on any machine. */
export async function until<T>(look: () => T | Promise<T>): Promise<NonNullable<T>> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > end) throw new Error('it never came to be');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
