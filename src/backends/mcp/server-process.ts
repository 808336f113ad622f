/**
 * The process of a server with a command. It leads a process group, carries a mark in its environment, and has no more of
 * our environment than PATH, LANG and the variables that the configuration names.
 *
 * P1  The group ends with the brain, also where the brain is killed: a shell in the group reads a pipe of which the brain
 *     alone has the other end, and kills the group when that is closed. A process that has left the group is ended by the
 *     next brain of the same data folder, which finds it by the mark.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { Env } from '../../kit/env/env.ts';
import { plainEnvironment } from '../../kit/process/environment.ts';
import { identityOf, signal } from '../../kit/process/identity.ts';
import { type Mark, markVariable, signalMarked } from '../../kit/process/marked.ts';
import { withPipes } from '../../kit/process/piped.ts';
import { within } from '../../kit/within.ts';

/** P1. The shell then becomes the server itself, so that the pid and the exit code are the server's. */
const SCRIPT = [
  '(read -r _ <&3; kill -KILL 0) </dev/null >/dev/null 2>&1 &',
  'exec 3<&-',
  'unset PWD OLDPWD SHLVL',
  'exec "$@"',
].join('\n');

const MAX_TAIL_CHARS = 4096;
const MAX_SAID_CHARS = 300;
/** A server that was told to stop by the end of its input has this long, then it is killed. */
const STOP_GRACE_MS = 1000;
/** Output that was written before the end may arrive after the news of it. */
const LAST_OUTPUT_MS = 1000;

export interface ServerProcessParts {
  readonly env: Env;
  readonly argv: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
  /** The folder of this server alone: its HOME and TMPDIR. */
  readonly home: string;
  readonly cwd: string;
  readonly mark: Mark;
}

export class ServerProcess {
  readonly pid: number | undefined;
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when the process has ended and its output was read: how it ended, for people. */
  readonly ended: Promise<string>;
  readonly #env: Env;
  readonly #mark: Mark;
  readonly #child: ChildProcess;
  #tail = '';

  constructor({ env, argv, variables, home, cwd, mark }: ServerProcessParts) {
    this.#env = env;
    this.#mark = mark;
    const { PATH = '', LANG } = plainEnvironment();
    const started = spawn('/bin/sh', ['-c', SCRIPT, 'sh', ...argv], {
      cwd,
      env: {
        PATH,
        ...(LANG !== undefined && { LANG }),
        HOME: home,
        TMPDIR: home,
        ...variables,
        ...markVariable(mark),
      },
      detached: true,
      shell: false,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    const child = withPipes(started);
    this.#child = child;
    this.pid = child.pid;
    for (const stream of child.stdio) stream?.on('error', () => undefined);
    const [stdin, stdout, stderr] = child.stdio as unknown as [Writable, Readable, Readable];
    this.input = stdin;
    this.output = stdout;
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#tail = (this.#tail + text).slice(-MAX_TAIL_CHARS);
    });
    this.ended = this.#end();
  }

  /** Ends the input, and kills what is left after a while. Resolves when nothing of it runs any more. */
  async stop(): Promise<void> {
    this.input.end();
    const late = await within(this.#env.timers, STOP_GRACE_MS, this.ended, 'late' as const);
    if (late === 'late') this.kill();
    await this.ended;
  }

  kill(): void {
    const leader = this.pid === undefined ? undefined : identityOf(this.pid);
    signalMarked(this.#mark, leader, 'SIGKILL');
  }

  async #end(): Promise<string> {
    const closed = new Promise((resolve) => this.#child.once('close', resolve));
    const how = await this.#exit();
    // The shell of P1 is still in the group, and so may be others.
    if (this.pid !== undefined) signal(-this.pid, 'SIGKILL');
    await within(this.#env.timers, LAST_OUTPUT_MS, closed, undefined);
    for (const stream of this.#child.stdio) stream?.destroy();
    const said = this.#tail.trim().split('\n').at(-1)?.slice(0, MAX_SAID_CHARS);
    return said ? `${how}: ${said}` : how;
  }

  #exit(): Promise<string> {
    return new Promise((resolve) => {
      this.#child.once('error', (error: NodeJS.ErrnoException) =>
        resolve(`it cannot be started (${error.code ?? error.message})`),
      );
      this.#child.once('exit', (code, name) =>
        resolve(`it ended with ${code === null ? name : `status ${code}`}`),
      );
    });
  }
}
