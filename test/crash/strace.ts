/** Runs a command under strace and reads what it did in the terms of the rules of order. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join, relative } from 'node:path';
import { type ChildEnd, runChild } from './children.ts';
import type { Folders } from './folders.ts';
import type { LedgerLine } from './ledger.ts';
import { ledgerPath } from './ledger.ts';
import type { Ack } from './script.ts';
import { ackEvent, ledgerEvent, type TraceEvent } from './trace.ts';

const CALLS = 'openat,write,pwrite64,fdatasync,fsync,rename,renameat,renameat2,unlink,unlinkat';

/** Says why not, or undefined where strace can be used; installs it where that is possible. */
export function straceMissing(): string | undefined {
  const works = (): boolean => spawnSync('strace', ['-qq', '-o', '/dev/null', 'true']).status === 0;
  if (works()) return undefined;
  if (process.getuid?.() === 0) {
    spawnSync('apt-get', ['install', '-y', 'strace'], { stdio: 'ignore', timeout: 120_000 });
    if (works()) return undefined;
  }
  return 'strace cannot be used here: install the Debian package strace (as root: apt-get install strace) and allow ptrace';
}

export function runUnderStrace(
  command: readonly string[],
  output: string,
  env: Record<string, string>,
  inject: readonly string[] = [],
): Promise<ChildEnd> {
  const options = ['-f', '--seccomp-bpf', '-qq', '-y', '-s', '20000', '-e', `trace=${CALLS}`, '-o', output];
  const injections = inject.flatMap((what) => ['-e', `inject=${what}`]);
  // strace counts per thread: with one worker thread every call of the journal is in one count.
  return runChild(['strace', ...options, ...injections, ...command], { ...env, UV_THREADPOOL_SIZE: '1' });
}

export interface Call {
  readonly thread: string;
  readonly name: string;
  readonly args: string;
  /** Undefined where the call had not returned when it is listed. */
  readonly result: string | undefined;
}

/** Every call twice where others came between: where it began, and where it returned. */
export function* readCalls(output: string): Generator<Call> {
  const begun = new Map<string, Call>();
  for (const line of fs.readFileSync(output, 'utf8').split('\n')) {
    const whole = /^(\d+) +(\w+)\((.*)\) += (-?\d+.*)$/.exec(line);
    const start = /^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$/.exec(line);
    const end = /^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+.*)$/.exec(line);
    if (whole) {
      const [, thread = '', name = '', args = '', result = ''] = whole;
      yield { thread, name, args, result };
    } else if (start) {
      const [, thread = '', name = '', args = ''] = start;
      const call = { thread, name, args, result: undefined };
      begun.set(thread, call);
      yield call;
    } else if (end) {
      const [, thread = '', name = '', rest = '', result = ''] = end;
      yield { thread, name, args: (begun.get(thread)?.args ?? '') + rest, result };
      begun.delete(thread);
    }
  }
}

/** The first thread is the loop itself; SQLite works there, the journal on the other one. */
export function eventsOf(output: string, folders: Folders): TraceEvent[] {
  const reader = new CallReader(folders);
  return [...readCalls(output)].flatMap((call) => reader.events(call));
}

class CallReader {
  readonly #folders: Folders;
  #main: string | undefined;
  /** Calls listed at their beginning are not listed again when they return. */
  readonly #open = new Set<string>();

  constructor(folders: Folders) {
    this.#folders = folders;
  }

  events(call: Call): TraceEvent[] {
    this.#main ??= call.thread;
    const began = !this.#open.delete(call.thread);
    if (call.result === undefined) this.#open.add(call.thread);
    if (call.name === 'fdatasync' || call.name === 'fsync') return this.#sync(call);
    return began ? this.#begun(call) : [];
  }

  #sync({ thread, args, result }: Call): TraceEvent[] {
    const path = this.#inside(fileOf(args));
    if (path === undefined || result !== '0' || thread === this.#main) return [];
    const isFolder = path === '.' || !path.includes('.') ? path !== 'log/spare' : false;
    return [{ is: isFolder ? 'sync-folder' : 'sync', path }];
  }

  #begun({ thread, name, args }: Call): TraceEvent[] {
    if (name === 'write' || name === 'pwrite64') return this.#write(thread, name, args);
    const paths = [...args.matchAll(/"([^"]*)"/g)].map(([, path = '']) => this.#inside(path));
    const [path] = paths;
    if (path === undefined) return [];
    if (path === 'lock' && name === 'openat') return [{ is: 'begin' }];
    if (thread === this.#main) return [];
    if (name === 'openat') return args.includes('O_CREAT') ? [{ is: 'create', path }] : [];
    if (name.startsWith('unlink')) return [{ is: 'remove', path }];
    return name.startsWith('rename') ? [{ is: 'rename', from: path, to: paths[1] ?? '' }] : [];
  }

  #write(thread: string, name: string, args: string): TraceEvent[] {
    const file = fileOf(args);
    const text = plain(/"(.*)"/s.exec(args)?.[1] ?? '');
    if (file === this.#folders.acks) return listOf(ackEvent(JSON.parse(text) as Ack));
    if (file === ledgerPath(this.#folders.ledger)) return listOf(ledgerEvent(JSON.parse(text) as LedgerLine));
    const path = this.#inside(file);
    if (path === undefined || thread === this.#main) return [];
    const numbers = /, (\d+)(?:, (\d+))?$/.exec(args);
    const position = name === 'pwrite64' ? Number(numbers?.[2]) : 0;
    return [{ is: 'write', path, position, bytes: Number(numbers?.[1]), text }];
  }

  /** The path within the data folder, for files of the journal. */
  #inside(path: string): string | undefined {
    const inner = relative(this.#folders.data, path) || '.';
    return inner.startsWith('..') || inner.startsWith('history.sqlite') ? undefined : inner;
  }
}

const listOf = <T>(item: T | undefined): T[] => (item === undefined ? [] : [item]);

export const fileOf = (args: string): string => /^\d+<([^>]*)>/.exec(args)?.[1] ?? '';

const plain = (text: string): string =>
  text.replaceAll(/\\(["\\n])/g, (_, mark: string) => (mark === 'n' ? '\n' : mark));

export const straceOutput = (folders: Folders): string => join(folders.root, 'strace.out');
