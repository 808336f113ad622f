/**
 * An OpenAI-compatible server that the worker starts itself, in its own process group. The group ends with the worker,
 * even if the worker is killed: a shell in the group reads a pipe from the worker and ends the group when it closes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Env } from '../../kit/env/env.ts';
import { freePort } from '../../kit/free-port.ts';
import { poll } from '../../kit/poll.ts';
import { signal } from '../../kit/process/identity.ts';
import { OrchdError } from '../../model/errors.ts';

/** Runs the server in a group that it kills at the end. The shell itself ignores SIGTERM, so that it can do that. */
const WATCHDOG_SCRIPT = `exec 3<&0 </dev/null
trap : TERM
(cat <&3 >/dev/null; trap '' TERM; kill -TERM 0; sleep 5; kill -KILL 0) &
"$@" 3<&-
kill -KILL 0`;

/** The time between SIGTERM and SIGKILL. */
const GRACE_MS = 5000;
const EXIT_POLL_MS = 25;

/** The values of the placeholders in the command that starts the server. */
export interface UpstreamValues {
  readonly model: string;
  readonly variant?: string | undefined;
  readonly slots: number;
  /** The context of one slot, in tokens. */
  readonly contextLength: number | undefined;
}

/**
 * Fills in `{port}`, `{model}`, `{variant}`, `{slots}`, `{context}` and `{total_context}`, the context of all slots
 * together, which is what some servers are told. Throws CONFIG_INVALID where the command names a context or a variant, and
 * none is known.
 */
export function upstreamArgv(
  command: readonly string[],
  { model, variant, slots, contextLength }: UpstreamValues,
  port: number,
): string[] {
  const values: Readonly<Record<string, string | undefined>> = {
    port: String(port),
    model,
    variant,
    slots: String(slots),
    context: contextLength?.toString(),
    total_context: contextLength === undefined ? undefined : String(contextLength * slots),
  };
  const fill = (whole: string, name: string): string => {
    if (!Object.hasOwn(values, name)) return whole;
    const value = values[name];
    if (value !== undefined) return value;
    throw new OrchdError(
      'CONFIG_INVALID',
      `the command of the upstream has ${whole}: set --${name === 'variant' ? name : 'context'}`,
    );
  };
  return command.map((word) => word.replace(/\{(\w+)\}/g, fill));
}

export class Upstream {
  readonly port: number;
  /** Settles when the server has ended, for whatever reason. */
  readonly ended: Promise<OrchdError>;
  readonly #env: Env;
  readonly #child: ChildProcess;

  private constructor(env: Env, child: ChildProcess, port: number) {
    this.#env = env;
    this.#child = child;
    this.port = port;
    this.ended = new Promise((resolve) => {
      const onEnd = (): void =>
        resolve(new OrchdError('WORKER_UNAVAILABLE', 'the upstream server has ended'));
      child.on('exit', onEnd).on('error', onEnd);
    });
    child.stdin?.on('error', () => undefined);
  }

  /** Starts the server on a free port. */
  static async start(env: Env, command: readonly string[], values: UpstreamValues): Promise<Upstream> {
    const port = await freePort();
    const argv = upstreamArgv(command, values, port);
    // The server's output goes to standard error, because standard output is the log of the worker.
    const child = spawn('/bin/sh', ['-c', WATCHDOG_SCRIPT, 'upstream', ...argv], {
      detached: true,
      stdio: ['pipe', 2, 2],
      env: upstreamEnvironment(),
    });
    return new Upstream(env, child, port);
  }

  /** Sends SIGTERM to the process group, and SIGKILL to what is left after GRACE_MS. */
  async stop(): Promise<void> {
    this.#signal('SIGTERM');
    const times = { everyMs: EXIT_POLL_MS, atMostMs: GRACE_MS };
    await poll(this.#env, times, () => !this.#signal(0) || undefined);
    this.#signal('SIGKILL');
  }

  /** Returns false when no process of the group is left. */
  #signal(name: NodeJS.Signals | 0): boolean {
    const { pid } = this.#child;
    return pid !== undefined && signal(-pid, name);
  }
}

/** Our environment without the ORCHD_ variables, some of which are secrets. */
function upstreamEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ORCHD_')));
}
