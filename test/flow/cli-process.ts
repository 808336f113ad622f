/** Runs the real command against a server, and hears what it says. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { Backend, BackendInfo } from '../../src/core/ports/backend.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';

export const MAIN = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts');

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface Running {
  readonly child: ChildProcess;
  /** Settles when what was said on a stream matches. */
  saw(stream: 'out' | 'err', pattern: RegExp): Promise<string>;
  readonly ended: Promise<Ran>;
}

export interface HowToRun {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Words before the command, such as those that run it in a namespace. */
  readonly within?: readonly string[];
}

export function start(words: readonly string[], how: HowToRun = {}): Running {
  // Variables of whoever runs the tests are no part of them.
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('ORCHD_'));
  const env = { ...Object.fromEntries(inherited), ...how.env };
  const [program = process.execPath, ...rest] = [...(how.within ?? []), process.execPath, MAIN, ...words];
  const child = spawn(program, rest, { env, stdio: 'pipe' });
  const said = { out: '', err: '' };
  const watchers = new Set<() => void>();
  const hear = (stream: 'out' | 'err') => (piece: string) => {
    said[stream] += piece;
    for (const look of watchers) look();
  };
  child.stdout.setEncoding('utf8').on('data', hear('out'));
  child.stderr.setEncoding('utf8').on('data', hear('err'));
  child.stdin.on('error', () => undefined).end(how.input ?? '');
  const ended = new Promise<Ran>((resolve) => {
    child.on('close', (code) => resolve(noStack({ code, ...said })));
  });
  const saw = (stream: 'out' | 'err', pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!pattern.test(said[stream])) return;
        watchers.delete(look);
        resolve(said[stream]);
      };
      watchers.add(look);
      look();
      void ended.then((ran) =>
        reject(new Error(`it ended before it said ${pattern}: ${JSON.stringify(ran)}`)),
      );
    });
  return { child, saw, ended };
}

export const orchd = (words: readonly string[], how?: HowToRun): Promise<Ran> => start(words, how).ended;

/** A person is never shown where in our code something went wrong. */
function noStack(ran: Ran): Ran {
  assert.doesNotMatch(ran.out + ran.err, /^\s+at .*[:(]\d+:\d+|node:internal/m);
  return ran;
}

export const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '');
export const jsonLines = (text: string): Record<string, unknown>[] =>
  linesOf(text).map((line) => JSON.parse(line));

/** Accepts work and then cannot say what became of it. */
class Forgetful implements Backend {
  readonly info: BackendInfo = {
    name: 'forgetful',
    kind: 'fake',
    slots: 10,
    types: ['forgotten'],
    models: undefined,
    labels: {},
    paid: true,
    keepsResults: true,
    registry: 'first',
  };

  offer = async () => ({ is: 'accepted' }) as const;
  follow = async () => ({ is: 'lost' }) as const;
  inspect = async () => ({ registry: 'second', rememberedSince: Date.now(), known: new Map() });
  kill = async () => ({ is: 'tombstoned', registry: 'second', rememberedSince: Date.now() }) as const;
  ack = async () => undefined;
}

export interface Gate {
  /** Ids of the jobs of type `held` that have started. */
  readonly started: string[];
  open(): void;
}

export interface CliBrain extends HttpBrain {
  readonly gate: Gate;
}

/** A server with work of every sort: answers, streams, failures, and work that waits for the test. */
export async function cliBrain(): Promise<CliBrain> {
  const opened = Promise.withResolvers<void>();
  const started: string[] = [];
  const inference = async ({ prompt }: { prompt: string }, { emit }: FunctionContext) => {
    for (const word of prompt.split(/(?<= )/)) emit(word);
    return { text: prompt };
  };
  const held = async (_: never, { jobId, emit, signal }: FunctionContext) => {
    started.push(jobId);
    emit('first ');
    const stopped = new Promise((_resolve, reject) => signal.addEventListener('abort', reject));
    await Promise.race([opened.promise, stopped]);
    emit('last');
    return 'done';
  };
  const fail = () => {
    throw Object.assign(new Error('the model said \u001b[31mno'), { retriable: false });
  };
  const failedOnce = new Set<string>();
  /** Its first try fails: with words in the payload, after these words and the gate. The second one answers. */
  const flaky = async (words: unknown, { jobId, emit }: FunctionContext) => {
    if (failedOnce.has(jobId)) return 'an answer';
    failedOnce.add(jobId);
    if (typeof words === 'string') {
      emit(words);
      await opened.promise;
    }
    throw new Error('no luck');
  };
  const brain = await httpBrain({
    backends: [
      {
        name: 'fast',
        slots: 4,
        types: { inference, fail, flaky, double: ({ n }: { n: number }) => 2 * n, quiet: () => 'a result' },
      },
      { name: 'narrow', slots: 1, types: { held } },
      new Forgetful(),
    ],
    config: `orchestrator:
  recovery: { holder_lost_ms: 50, sweep_interval_ms: 50 }
  retry: { base_delay_ms: 10, max_delay_ms: 10 }`,
    disconnectGraceMs: 50,
  });
  return { ...brain, gate: { started, open: () => opened.resolve() } };
}

export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}
