/**
 * Starts supervisor processes. A spare one is kept waiting for its spec, so that an offer does not wait for a process to
 * start; the spare ends by itself when the brain does, because its standard input closes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Env } from '../../../kit/env/env.ts';
import { plainEnvironment } from '../../../kit/process/environment.ts';
import { within } from '../../../kit/within.ts';
import type { SpecHeader, SupervisorReply, SupervisorSpec } from './layout.ts';

/** Longer than a process takes to start, even on an overloaded machine. */
const REPLY_TIMEOUT_MS = 30_000;
const MAX_REPLY_CHARS = 10_000;

export class Launcher {
  readonly #env: Env;
  readonly #folder: string;
  readonly #stopSignal: AbortSignal;
  #spare: ChildProcess | undefined;

  /** Once `stopSignal` is aborted, no spare supervisor is kept. */
  constructor(env: Env, folder: string, stopSignal: AbortSignal) {
    this.#env = env;
    this.#folder = folder;
    this.#stopSignal = stopSignal;
    stopSignal.addEventListener('abort', () => {
      this.#spare?.stdin?.end();
      this.#spare = undefined;
    });
  }

  /** Starts the spare supervisor unless there is one. */
  prepare(): void {
    if (this.#stopSignal.aborted || this.#spare) return;
    let spare: ChildProcess;
    try {
      spare = this.#spawn();
    } catch {
      // The spare only saves time. `launch` starts a supervisor itself, and reports why that fails.
      return;
    }
    this.#spare = spare;
    keepsProcessAlive(spare, false);
    const gone = (): void => {
      if (this.#spare === spare) this.#spare = undefined;
    };
    spare.on('error', gone);
    spare.on('exit', gone);
  }

  /** Throws when no answer comes in time: the command may have been started or not. */
  async launch(spec: SupervisorSpec): Promise<SupervisorReply> {
    const spare = this.#spare;
    this.#spare = undefined;
    let reply = await this.#sendSpec(spare ?? this.#spawn(), spec);
    // The spare may have been killed while it waited. A second supervisor is safe: where the spare did start the
    // command, it holds the token's folder and the second one answers `taken`.
    if (spare && reply === undefined) reply = await this.#sendSpec(this.#spawn(), spec);
    this.prepare();
    return reply ?? { is: 'failed', message: 'the supervisor ended without an answer' };
  }

  #spawn(): ChildProcess {
    // The published build has .js files beside each other just as the source has .ts files.
    const script = import.meta.url.endsWith('.ts') ? './supervisor-main.ts' : './supervisor-main.js';
    const child = spawn(process.execPath, [fileURLToPath(new URL(script, import.meta.url))], {
      cwd: this.#folder,
      // The supervisor gets only the variables that a command gets as well, so no secret of the brain.
      env: plainEnvironment(),
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    // A failed start is also seen as the missing reply.
    child.on('error', () => undefined);
    child.stdin?.on('error', () => undefined);
    return child;
  }

  /** The supervisor's reply; undefined when it ends without one. */
  async #sendSpec(child: ChildProcess, spec: SupervisorSpec): Promise<SupervisorReply | undefined> {
    keepsProcessAlive(child, true);
    try {
      const reply = replyOf(child);
      writeSpec(child, spec);
      const answer = await within(this.#env.timers, REPLY_TIMEOUT_MS, reply, 'late');
      if (answer === 'late') throw new Error('no answer in time');
      return answer;
    } finally {
      child.stdout?.destroy();
      keepsProcessAlive(child, false);
    }
  }
}

function writeSpec({ stdin }: ChildProcess, { payload, ...rest }: SupervisorSpec): void {
  const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload;
  const header: SpecHeader = { ...rest, payloadBytes: bytes.length };
  stdin?.write(`${JSON.stringify(header)}\n`);
  stdin?.end(bytes);
}

/** The first line of the supervisor's output; undefined when it ends without one. */
function replyOf(child: ChildProcess): Promise<SupervisorReply | undefined> {
  return new Promise((resolve) => {
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (more: string) => {
      text += more;
      const end = text.indexOf('\n');
      if (end >= 0) resolve(parsed(text.slice(0, end)));
      else if (text.length > MAX_REPLY_CHARS) resolve(undefined);
    });
    child.on('error', () => resolve(undefined));
    // Not on `exit`: output may still arrive after it.
    child.on('close', () => resolve(undefined));
  });
}

/** Sets whether the child and its pipes keep this process from exiting. */
function keepsProcessAlive(child: ChildProcess, keeps: boolean): void {
  for (const part of [child, child.stdin, child.stdout] as ({ ref(): void; unref(): void } | null)[]) {
    if (keeps) part?.ref();
    else part?.unref();
  }
}

function parsed(line: string): SupervisorReply | undefined {
  try {
    return JSON.parse(line) as SupervisorReply;
  } catch {
    return undefined;
  }
}
