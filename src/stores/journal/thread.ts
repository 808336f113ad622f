/** The background on a thread: calls go over as messages and come back in order. */

import { Worker } from 'node:worker_threads';
import type { HistoryReads, PurgeResult } from '../../core/ports/store.ts';
import { isErrorCode, OrchdError } from '../../model/errors.ts';
import { type Background, readsOf } from './background.ts';
import type { Manifest } from './checkpoint/manifest.ts';
import type { MergeOrder } from './checkpoint/merge.ts';
import type { HistoryOpened } from './history/history.ts';
import { SqliteHistory } from './history/sqlite.ts';
import type { Paths } from './layout.ts';

export type ThreadCall = 'open' | 'merge' | 'index' | 'planPurge' | 'purge' | 'usesBlobFile' | 'close';

export interface ThreadRequest {
  readonly id: number;
  readonly call: ThreadCall;
  readonly args: readonly unknown[];
}

/** Its code is one of the catalogue, or that of the system: what a failure means is told by it. */
export interface ThreadError {
  readonly message: string;
  readonly code: string | undefined;
}

export interface ThreadReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: ThreadError;
}

interface Waiter {
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
}

export class ThreadBackground implements Background {
  readonly #worker: Worker;
  readonly #waiters = new Map<number, Waiter>();
  readonly #reader: SqliteHistory;
  readonly reads: HistoryReads;
  #calls = 0;
  #dead: Error | undefined;

  constructor(paths: Paths) {
    // The published build has .js files beside each other just as the source has .ts files.
    const script = new URL(
      import.meta.url.endsWith('.ts') ? './thread-main.ts' : './thread-main.js',
      import.meta.url,
    );
    this.#worker = new Worker(script, {
      workerData: { folder: paths.folder },
      name: 'orchd-journal',
      // Flags that made sense for the program need not make sense for a thread of ours.
      execArgv: [],
    });
    this.#worker.on('message', (reply: ThreadReply) => this.#settle(reply));
    this.#worker.on('error', (error: Error) => this.#die(error));
    this.#worker.on('exit', () => this.#die(new Error('the background thread ended')));
    this.#worker.unref();
    this.#reader = new SqliteHistory(paths.history, 'read');
    this.reads = readsOf(this.#reader);
  }

  async open(): Promise<HistoryOpened> {
    const opened = await this.#call<HistoryOpened>('open');
    this.#reader.open();
    return opened;
  }

  merge(order: MergeOrder): Promise<Manifest> {
    return this.#call('merge', order);
  }

  index(rows: string, watermark: number): Promise<void> {
    return this.#call('index', rows, watermark);
  }

  planPurge(endedBefore: number, limit: number): Promise<PurgeResult> {
    return this.#call('planPurge', endedBefore, limit);
  }

  purge(endedBefore: number, limit: number): Promise<void> {
    return this.#call('purge', endedBefore, limit);
  }

  usesBlobFile(file: number): Promise<boolean> {
    return this.#call('usesBlobFile', file);
  }

  async close(): Promise<void> {
    // The writer goes last: only then does SQLite tidy up.
    this.#reader.close();
    if (!this.#dead) await this.#call('close').catch(() => undefined);
    await this.#worker.terminate();
  }

  #call<T>(call: ThreadCall, ...args: readonly unknown[]): Promise<T> {
    if (this.#dead) return Promise.reject(this.#dead);
    const id = ++this.#calls;
    // Nothing is left running while the program waits for an answer, and nothing keeps it alive without one.
    if (this.#waiters.size === 0) this.#worker.ref();
    return new Promise<T>((resolve, reject) => {
      this.#waiters.set(id, { resolve: resolve as (value: never) => void, reject });
      this.#worker.postMessage({ id, call, args } satisfies ThreadRequest);
    });
  }

  #settle(reply: ThreadReply): void {
    const waiter = this.#waiters.get(reply.id);
    this.#waiters.delete(reply.id);
    if (this.#waiters.size === 0) this.#worker.unref();
    if (reply.error) waiter?.reject(revive(reply.error));
    else waiter?.resolve(reply.value as never);
  }

  #die(error: Error): void {
    this.#dead ??= error;
    for (const waiter of this.#waiters.values()) waiter.reject(error);
    this.#waiters.clear();
  }
}

function revive({ message, code }: ThreadError): Error {
  if (code === undefined) return new Error(message);
  return isErrorCode(code) ? new OrchdError(code, message) : Object.assign(new Error(message), { code });
}
