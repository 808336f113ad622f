/**
 * One process of a module: a scan, or the handling of ends. It leads a process group and carries a mark in its
 * environment, so that whatever it starts is found and ended with it, in other groups too.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { setPriority } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import type { Env } from '../../kit/env/env.ts';
import { plainEnvironment } from '../../kit/process/environment.ts';
import { identityOf, type ProcessIdentity, processesBy, signal } from '../../kit/process/identity.ts';
import { endMarked, type Mark, markVariable, signalMarked } from '../../kit/process/marked.ts';
import { withPipes } from '../../kit/process/piped.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ModuleParts } from './parts.ts';
import type { ModuleSettings } from './settings.ts';

/** Enough for the message of V8 about memory, which a long native stack follows. */
const MAX_TAIL_CHARS = 16 * 1024;
const MAX_MESSAGE_CHARS = 300;
/** Output that a process without the mark still holds open is closed after this; until then what is left is read. */
const CLOSE_MS = 30_000;
const LAST_WORDS_MS = 1000;
/** The niceness of modules: the brain and its executors come first. */
const NICENESS = 5;

/** The error of a module that is ended because it takes too long. */
export const tooLate = (what: string, timeoutMs: number): OrchdError =>
  new OrchdError('MODULE_TIMEOUT', `${what} took longer than ${timeoutMs / 1000} s (timeout_sec)`);

const VARIABLE = 'ORCHD_MODULE';

/** The mark of a module's processes; `scope` is different for each data folder of a machine. */
export const moduleMark = (scope: string, name: string, what: 'scan' | 'handle'): Mark => ({
  variable: VARIABLE,
  value: `${scope}/${name}/${what}`,
});

/** Ends what a brain that was killed has left behind, also of modules that are not configured any more. */
export async function endLeftModules({ env, scope }: Pick<ModuleParts, 'env' | 'scope'>): Promise<void> {
  const left = [...processesBy(VARIABLE).keys()].filter((value) => value.startsWith(`${scope}/`));
  await Promise.all(left.map((value) => endMarked(env, { variable: VARIABLE, value })));
}

type Streams = readonly [stdin: Writable, stdout: Readable, stderr: Readable, channel: Readable];

export class ModuleProcess {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when it, and all that it started, has ended: why it failed, or undefined. */
  readonly ended: Promise<OrchdError | undefined>;
  readonly #env: Env;
  readonly #mark: Mark;
  readonly #child: ChildProcess;
  readonly #leader: ProcessIdentity | undefined;
  /** Resolves when everything that it wrote to standard error was read. */
  readonly #said: Promise<unknown>;
  #tail = '';
  /** Set once the brain has ended it; `why` is undefined where that is no failure. */
  #killed: { readonly why: OrchdError | undefined } | undefined;

  constructor(env: Env, settings: ModuleSettings, argv: readonly string[], mark: Mark) {
    this.#env = env;
    this.#mark = mark;
    const isFile = settings.kind === 'file';
    const child = started(argv, {
      cwd: settings.cwd,
      env: { ...plainEnvironment(), ...settings.env, ...markVariable(mark) },
      detached: true,
      shell: false,
      stdio: ['pipe', 'pipe', 'pipe', ...(isFile ? (['pipe'] as const) : [])],
    });
    this.#child = child;
    this.#leader = child.pid === undefined ? undefined : identityOf(child.pid);
    if (child.pid !== undefined) lowerPriority(child.pid);
    const [stdin, stdout, stderr, channel] = child.stdio as unknown as Streams;
    this.input = stdin;
    this.output = isFile ? channel : stdout;
    // A process that ended early reads no more: that is reported by its end.
    stdin.on('error', () => undefined);
    for (const stream of child.stdio) stream?.on('error', () => undefined);
    if (isFile) stdout.resume();
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#tail = (this.#tail + text).slice(-MAX_TAIL_CHARS);
    });
    this.#said = new Promise((resolve) => stderr.once('close', resolve));
    this.ended = this.#end();
  }

  /** Ends it with everything that it has started. `why` is the failure that `ended` reports; none if undefined. */
  kill(why: OrchdError | undefined): void {
    this.#killed ??= { why };
    signalMarked(this.#mark, this.#leader, 'SIGKILL');
  }

  get wasKilled(): boolean {
    return this.#killed !== undefined;
  }

  async #end(): Promise<OrchdError | undefined> {
    const exit = await this.#exit();
    // The id of the group is not used again while one of its members is alive.
    if (this.#child.pid !== undefined) signal(-this.#child.pid, 'SIGKILL');
    await endMarked(this.#env, this.#mark);
    // The last words may arrive after the news of the end.
    await within(this.#env.timers, LAST_WORDS_MS, this.#said, undefined);
    const cancel = this.#env.timers.after(CLOSE_MS, () => this.output.destroy());
    if (!this.output.closed) this.output.once('close', cancel);
    else cancel();
    if (this.#killed) return this.#killed.why;
    if (exit === 'ok') return undefined;
    if (/out of memory|Array buffer allocation failed/.test(this.#tail))
      return new OrchdError('MODULE_OUT_OF_MEMORY', 'it ran out of memory (memory_mb)');
    const said = this.#tail.trim().split('\n').at(-1)?.slice(0, MAX_MESSAGE_CHARS);
    return new OrchdError('MODULE_FAILED', said ? `${exit}: ${said}` : exit);
  }

  #exit(): Promise<string> {
    return new Promise((resolve) => {
      this.#child.once('error', (error: NodeJS.ErrnoException) => resolve(cannotStart(error)));
      this.#child.once('exit', (code, name) =>
        resolve(code === 0 ? 'ok' : `it ended with ${code === null ? name : `status ${code}`}`),
      );
    });
  }
}

/** Throws MODULE_FAILED where the system cannot even try, such as for want of file descriptors. */
function started([program = '', ...args]: readonly string[], options: SpawnOptions): ChildProcess {
  try {
    return withPipes(spawn(program, args, options));
  } catch (error) {
    throw new OrchdError('MODULE_FAILED', cannotStart(error as NodeJS.ErrnoException), {}, { cause: error });
  }
}

const cannotStart = ({ code, message }: NodeJS.ErrnoException): string =>
  `it cannot be started (${code ?? message})`;

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, NICENESS);
  } catch {
    // It has ended already.
  }
}
