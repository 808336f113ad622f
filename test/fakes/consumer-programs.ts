/** Consumers in processes of their own, in each language that has a client. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Ends } from '../flow/server-process.ts';

/**
 * What the jobs of these consumers are told to do. `lasts`: milliseconds. A consumer listens on Redis where its jobs last
 * 200 or more; of quick ones it asks the brain for more.
 */
export type Told =
  | { readonly do: 'note'; readonly lasts?: number }
  | { readonly do: 'fail' }
  | { readonly do: 'block'; readonly ms: number }
  | { readonly do: 'die'; readonly unless: string }
  | {
      readonly do: 'say';
      readonly words: readonly string[];
      readonly until?: string;
      readonly lasts?: number;
    }
  | { readonly do: 'large'; readonly chars: number }
  | { readonly do: 'hold'; readonly until: string };

export interface ConsumerProgram {
  readonly url: string;
  readonly pool: string;
  readonly slots: number;
  readonly ledger: string;
  readonly leaseTtlMs: number;
  readonly graceMs: number;
  readonly redisUrl?: string;
}

const HERE = import.meta.dirname;

export const LANGUAGES = {
  Node: [process.execPath, join(HERE, 'consumer-main.ts')],
  Python: ['python3', join(HERE, 'consumer.py')],
} as const;
export type Language = keyof typeof LANGUAGES;

export interface RunningConsumer {
  readonly child: ChildProcess;
  /** Settles when standard output matches. */
  saw(pattern: RegExp): Promise<void>;
  readonly ended: Promise<number | null>;
  signal(name: NodeJS.Signals): void;
}

export function startConsumer(t: Ends, language: Language, program: ConsumerProgram): RunningConsumer {
  const [command, ...words] = LANGUAGES[language];
  const child = spawn(command, [...words, JSON.stringify(program)], { stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let complaints = '';
  const watchers = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    out += piece;
    for (const look of watchers) look();
  });
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    complaints += piece;
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  t.after(async () => {
    child.kill('SIGCONT');
    child.kill('SIGKILL');
    await ended;
  });
  const saw = (pattern: RegExp): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!pattern.test(out)) return;
        watchers.delete(look);
        resolve();
      };
      watchers.add(look);
      look();
      void ended.then(() => reject(new Error(`it ended before it said ${pattern}: ${out} ${complaints}`)));
    });
  return { child, saw, ended, signal: (name) => void child.kill(name) };
}

/** The tokens that consumers have begun, in order, by their own account. */
export function begun(ledger: string): string[] {
  if (!existsSync(ledger)) return [];
  const lines = readFileSync(ledger, 'utf8').split('\n');
  return lines.flatMap((line) => (line.startsWith('began ') ? (line.split(' ')[1] ?? []) : []));
}
