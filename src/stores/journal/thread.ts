/** Runs the Background on a worker thread: calls and replies are messages, and calls are executed in order. */

import { Worker } from 'node:worker_threads';
import type { LedgerKey, LedgerPlace, LedgerWindow } from '../../core/ports/ledger.ts';
import type { ArchiveReads, SessionName } from '../../core/ports/sessions.ts';
import type { HistoryReads, KeptJob, PurgePlan } from '../../core/ports/store.ts';
import type { Timers } from '../../kit/env/env.ts';
import { isErrorCode, OrchdError } from '../../model/errors.ts';
import { type Background, readsOf } from './background.ts';
import type { Manifest } from './checkpoint/manifest.ts';
import type { MergeOrder } from './checkpoint/merge.ts';
import type { HistoryOpened, LogPoint } from './history/history.ts';
import type { RebuiltHistory } from './history/rebuild.ts';
import { archiveReadsOf } from './history/session-index.ts';
import { listInSlices } from './history/sliced-list.ts';
import { SqliteHistory } from './history/sqlite.ts';
import type { Paths } from './layout.ts';

export type ThreadCall =
  | 'open'
  | 'repair'
  | 'merge'
  | 'index'
  | 'sums'
  | 'charges'
  | 'dropCharges'
  | 'planPurge'
  | 'purge'
  | 'archive'
  | 'dropSessions'
  | 'usesBlobFile'
  | 'blobFiles'
  | 'close';

export interface ThreadRequest {
  readonly id: number;
  readonly call: ThreadCall;
  readonly args: readonly unknown[];
}

/** An error that crosses the thread boundary. */
export interface ThreadError {
  readonly message: string;
  /** A code of orchd's catalogue or of the operating system; it decides how the failure is handled. */
  readonly code: string | undefined;
}

export interface ThreadReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: ThreadError;
}

interface PendingCall {
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
}

export class ThreadBackground implements Background {
  readonly #worker: Worker;
  readonly #pending = new Map<number, PendingCall>();
  readonly #reader: SqliteHistory;
  readonly reads: HistoryReads;
  readonly sessions: ArchiveReads;
  #calls = 0;
  #failure: Error | undefined;
  #isClosed = false;

  constructor(paths: Paths, timers: Timers) {
    // The published build has .js files in the same places as the .ts files of the source.
    const script = new URL(
      import.meta.url.endsWith('.ts') ? './thread-main.ts' : './thread-main.js',
      import.meta.url,
    );
    this.#worker = new Worker(script, {
      workerData: { folder: paths.folder },
      name: 'orchd-journal',
      // Flags of the main program need not be valid for this thread.
      execArgv: [],
    });
    this.#worker.on('message', (reply: ThreadReply) => this.#settle(reply));
    this.#worker.on('error', (error: Error) => this.#fail(error));
    this.#worker.on('exit', () => this.#fail(new Error('the background thread ended')));
    this.#worker.unref();
    this.#reader = new SqliteHistory(paths.history, 'read');
    const reader = this.#reader;
    this.sessions = archiveReadsOf(reader);
    this.reads = { ...readsOf(reader), list: (query) => listInSlices(reader, query, timers) };
  }

  async open(keptSince: number): Promise<HistoryOpened> {
    const opened = await this.#call<HistoryOpened>('open', keptSince);
    this.#reader.open();
    return opened;
  }

  async repair(): Promise<RebuiltHistory> {
    // A connection to the damaged file must not outlive it: the names of its -wal and -shm files pass to the new one.
    this.#reader.close();
    const rebuilt = await this.#call<RebuiltHistory>('repair');
    if (!this.#isClosed) this.#reader.open();
    return rebuilt;
  }

  merge(order: MergeOrder): Promise<Manifest> {
    return this.#call('merge', order);
  }

  index(rows: string, watermark: number, log?: LogPoint, charges?: string): Promise<void> {
    return this.#call('index', rows, watermark, log, charges);
  }

  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): Promise<string[]> {
    return this.#call('sums', window, by, limit);
  }

  charges(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): Promise<string> {
    return this.#call('charges', window, after, limit);
  }

  dropCharges(settledBefore: number, limit: number): Promise<number> {
    return this.#call('dropCharges', settledBefore, limit);
  }

  planPurge(endedBefore: number, limit: number): Promise<PurgePlan> {
    return this.#call('planPurge', endedBefore, limit);
  }

  purge(endedBefore: number, limit: number, kept?: readonly KeptJob[]): Promise<void> {
    return this.#call('purge', endedBefore, limit, kept);
  }

  archive(rows: string): Promise<void> {
    return this.#call('archive', rows);
  }

  dropSessions(sessions: readonly SessionName[]): Promise<void> {
    return this.#call('dropSessions', sessions);
  }

  usesBlobFile(file: number): Promise<boolean> {
    return this.#call('usesBlobFile', file);
  }

  blobFiles(): Promise<number[]> {
    return this.#call('blobFiles');
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // The writer is closed last: SQLite removes its -wal and -shm files when the last connection closes.
    this.#reader.close();
    if (!this.#failure) await this.#call('close').catch(() => undefined);
    await this.#worker.terminate();
  }

  #call<T>(call: ThreadCall, ...args: readonly unknown[]): Promise<T> {
    if (this.#failure) return Promise.reject(this.#failure);
    const id = ++this.#calls;
    // The thread keeps the process alive only while a call is pending.
    if (this.#pending.size === 0) this.#worker.ref();
    return new Promise<T>((resolve, reject) => {
      this.#pending.set(id, { resolve: resolve as (value: never) => void, reject });
      this.#worker.postMessage({ id, call, args } satisfies ThreadRequest);
    });
  }

  #settle(reply: ThreadReply): void {
    const call = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (this.#pending.size === 0) this.#worker.unref();
    if (reply.error) call?.reject(toError(reply.error));
    else call?.resolve(reply.value as never);
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const call of this.#pending.values()) call.reject(error);
    this.#pending.clear();
  }
}

function toError({ message, code }: ThreadError): Error {
  if (code === undefined) return new Error(message);
  return isErrorCode(code) ? new OrchdError(code, message) : Object.assign(new Error(message), { code });
}
