/**
 * Starts supervisors. One is kept waiting for its spec, so that an offer does not wait for a process to start;
 * it ends by itself when the brain does.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Env } from '../../../kit/env/env.ts';
import { plainEnvironment } from '../../../kit/process/environment.ts';
import { within } from '../../../kit/within.ts';
import type { Spec, SupervisorReply } from './layout.ts';

/** Longer than a process takes to start on a machine that is far too busy. */
const REPLY_MS = 30_000;
const MAX_REPLY_CHARS = 10_000;

export class Launcher {
  readonly #env: Env;
  readonly #folder: string;
  readonly #stopSignal: AbortSignal;
  #spare: ChildProcess | undefined;

  /** Once the signal is aborted none is kept waiting. */
  constructor(env: Env, folder: string, stopSignal: AbortSignal) {
    this.#env = env;
    this.#folder = folder;
    this.#stopSignal = stopSignal;
    stopSignal.addEventListener('abort', () => {
      this.#spare?.stdin?.end();
      this.#spare = undefined;
    });
  }

  /** Keeps one supervisor waiting. */
  prepare(): void {
    if (this.#stopSignal.aborted || this.#spare) return;
    let spare: ChildProcess;
    try {
      spare = this.#spawn();
    } catch {
      // It is only a convenience: whoever needs one hears why there is none.
      return;
    }
    this.#spare = spare;
    hold(spare, false);
    const gone = (): void => {
      if (this.#spare === spare) this.#spare = undefined;
    };
    spare.on('error', gone);
    spare.on('exit', gone);
  }

  /** Throws when there is no answer: anything may have happened. */
  async launch(spec: Spec): Promise<SupervisorReply> {
    const spare = this.#spare;
    this.#spare = undefined;
    let reply = await this.#hand(spare ?? this.#spawn(), spec);
    // One that has waited for long may have been ended by anybody; whatever it did, it holds the token then.
    if (spare && reply === undefined) reply = await this.#hand(this.#spawn(), spec);
    this.prepare();
    return reply ?? { is: 'failed', message: 'the supervisor ended without an answer' };
  }

  #spawn(): ChildProcess {
    // The published build has .js files beside each other just as the source has .ts files.
    const script = import.meta.url.endsWith('.ts') ? './supervisor-main.ts' : './supervisor-main.js';
    const child = spawn(process.execPath, [fileURLToPath(new URL(script, import.meta.url))], {
      cwd: this.#folder,
      // No variable but those that a command gets as well.
      env: plainEnvironment(),
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    // Said by its exit as well.
    child.on('error', () => undefined);
    child.stdin?.on('error', () => undefined);
    return child;
  }

  /** What it says, or undefined when it ends without a word. */
  async #hand(child: ChildProcess, spec: Spec): Promise<SupervisorReply | undefined> {
    hold(child, true);
    try {
      const reply = replyOf(child);
      child.stdin?.end(JSON.stringify(spec));
      const heard = await within(this.#env.timers, REPLY_MS, reply, 'late');
      if (heard === 'late') throw new Error('no answer in time');
      return heard;
    } finally {
      child.stdout?.destroy();
      hold(child, false);
    }
  }
}

/** The first line that it says, or undefined when it ends without one. */
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
    // Not at `exit`: what it said may still be on its way.
    child.on('close', () => resolve(undefined));
  });
}

/** Whether this process stays for a child's sake. */
function hold(child: ChildProcess, held: boolean): void {
  for (const part of [child, child.stdin, child.stdout] as ({ ref(): void; unref(): void } | null)[]) {
    if (held) part?.ref();
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
