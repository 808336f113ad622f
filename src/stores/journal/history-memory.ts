/** The history in memory: for the simulation, whose disk SQLite cannot write to. Always fresh after a start. */
import { type HistoryQuery, isAskedFor, type JobBundle, type PurgeResult } from '../../core/ports.ts';
import { readBundle, readLine } from './bundle-line.ts';
import { blobRange, callerChoseId, type HistoryIndex, type HistoryOpened, readRow } from './history.ts';

export class MemoryHistory implements HistoryIndex {
  readonly #jobs = new Map<string, JobBundle>();

  open(): HistoryOpened {
    return { watermark: 0, fresh: true };
  }

  put(rows: readonly string[]): void {
    for (const row of rows) {
      const bundle = readBundle(readLine(readRow(row).line));
      this.#jobs.set(bundle.uid, bundle);
    }
  }

  get(uid: string): JobBundle | undefined {
    return this.#jobs.get(uid);
  }

  list(query: HistoryQuery): JobBundle[] {
    const found = [...this.#jobs.values()].filter(({ ask, job }) => isAskedFor(query, ask, job));
    return found.sort((a, b) => b.ask.n - a.ask.n).slice(0, query.limit);
  }

  after(n: number, limit: number): JobBundle[] {
    const later = [...this.#jobs.values()].filter(({ ask }) => ask.n > n);
    return later.sort((a, b) => a.ask.n - b.ask.n).slice(0, limit);
  }

  count(): number {
    return this.#jobs.size;
  }

  planPurge(endedBefore: number, limit: number): PurgeResult {
    const doomed = this.#doomed(endedBefore, limit);
    const attempts = doomed.filter(callerChoseId).map(({ job }) => job.attempt);
    return { jobs: doomed.length, attemptFloor: Math.max(0, ...attempts) };
  }

  purge(endedBefore: number, limit: number): void {
    for (const { uid } of this.#doomed(endedBefore, limit)) this.#jobs.delete(uid);
  }

  usesBlobFile(file: number): boolean {
    for (const bundle of this.#jobs.values()) {
      const range = blobRange(bundle);
      if (range && range.low <= file && file <= range.high) return true;
    }
    return false;
  }

  close(): void {}

  #doomed(endedBefore: number, limit: number): JobBundle[] {
    const ended = [...this.#jobs.values()].filter(({ job }) => (job.endedAt ?? 0) < endedBefore);
    return ended.sort((a, b) => a.ask.n - b.ask.n).slice(0, limit);
  }
}
