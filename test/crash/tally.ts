/** Counts everything the brain does to its disk and every crash point, and kills the process at one of them. */
import fs from 'node:fs';
import { armCrashpoints } from '../../src/kit/crashpoint.ts';
import type { HistoryIndex } from '../../src/stores/journal/history/history.ts';
import { type Folders, keepSegment } from './folders.ts';
import type { Operation } from './watched-disk.ts';

/** Methods of the history index that count as operations. */
const COUNTED: ReadonlySet<string> = new Set(['open', 'put', 'purge', 'close']);

export interface KillOrder {
  /** Die right before the n-th thing, counted from 1; 0 means never. */
  readonly at: number;
  /** Die in the middle of it: a write that got half way. */
  readonly torn: boolean;
}

export interface Died {
  readonly at: number;
  readonly name: string;
  readonly time: number;
}

export class Tally {
  readonly names: string[] = [];
  readonly #folders: Folders;
  readonly #order: KillOrder;
  readonly #now: () => number;

  constructor(folders: Folders, order: KillOrder, now: () => number) {
    this.#folders = folders;
    this.#order = order;
    this.#now = now;
  }

  arm(): void {
    armCrashpoints((name) => this.hit(`point ${name}`));
  }

  /** For disk calls and statements; the promise never resolves where the process dies in the middle of one. */
  before(operation: Operation): Promise<void> | undefined {
    if (this.#order.torn && operation.tear && this.names.length + 1 === this.#order.at) {
      return operation.tear().then(() => this.hit(operation.name));
    }
    this.hit(operation.name);
    if (operation.kind === 'remove') keepSegment(this.#folders, operation.path);
    return undefined;
  }

  hit(name: string): void {
    this.names.push(name);
    if (this.names.length === this.#order.at) this.#die(name);
  }

  /** SQLite's own files are its own matter; what it is told to do has a place in the order too. */
  watchHistory(history: HistoryIndex): HistoryIndex {
    return new Proxy(history, {
      get: (target, name) => {
        const member = Reflect.get(target, name) as unknown;
        if (typeof member !== 'function') return member;
        return (...args: unknown[]) => {
          if (COUNTED.has(String(name))) this.hit(`history ${String(name)}`);
          return Reflect.apply(member, target, args) as unknown;
        };
      },
    });
  }

  #die(name: string): void {
    const died: Died = { at: this.#order.at, name, time: this.#now() };
    fs.writeFileSync(this.#folders.died, JSON.stringify(died));
    process.kill(process.pid, 'SIGKILL');
  }
}

export const readDied = (folders: Folders): Died => JSON.parse(fs.readFileSync(folders.died, 'utf8')) as Died;
