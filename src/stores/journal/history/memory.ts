/** A history in memory, for simulations whose disk SQLite cannot write to. It is empty, hence `fresh`, after each start. */
import type { LedgerKey, LedgerPlace, LedgerSum, LedgerWindow } from '../../../core/ports/ledger.ts';
import type { HistoryQuery, JobBundle, KeptJob, PurgePlan } from '../../../core/ports/store.ts';
import { chargesOf } from '../../../model/charge.ts';
import { Charges } from '../../charges.ts';
import { EndedJobs } from '../../ended-jobs.ts';
import { readBundle, readLine } from '../checkpoint/line.ts';
import { chargeRow, readCharge } from './charge-rows.ts';
import { blobRange, type HistoryIndex, type HistoryOpened, type LogPoint, readRow } from './history.ts';
import { memorySessions, type SessionIndex } from './session-index.ts';

export class MemoryHistory implements HistoryIndex {
  readonly #ended = new EndedJobs();
  readonly #charges = new Charges();
  readonly sessions: SessionIndex = memorySessions();

  open(): HistoryOpened {
    return { watermark: 0, fresh: true };
  }

  setAside(): void {}

  put(rows: readonly string[], _watermark: number, _log?: LogPoint, charges: readonly string[] = []): void {
    for (const row of rows) {
      const { line, withCharges } = readRow(row);
      const bundle = readBundle(readLine(line));
      this.#ended.put(bundle);
      if (!withCharges) continue;
      for (const charge of chargesOf(bundle.uid, bundle.ask, bundle.attempts)) this.#charges.put(charge);
    }
    for (const row of charges) this.#charges.put(readCharge(row));
  }

  get(uid: string): JobBundle | undefined {
    return this.#ended.get(uid);
  }

  list(query: HistoryQuery): JobBundle[] {
    return this.#ended.list(query);
  }

  between(from: string, below: string, limit: number): JobBundle[] {
    return this.#ended.between(from, below, limit);
  }

  after(n: number, limit: number): JobBundle[] {
    return this.#ended.after(n, limit);
  }

  count(): number {
    return this.#ended.count();
  }

  planPurge(endedBefore: number, limit: number): PurgePlan {
    return this.#ended.planPurge(endedBefore, limit);
  }

  purge(endedBefore: number, limit: number, kept?: readonly KeptJob[]): void {
    this.#ended.purge(endedBefore, limit, kept);
  }

  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): LedgerSum[] {
    return this.#charges.sums(window, by, limit);
  }

  charges(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): string[] {
    return this.#charges.page(window, after, limit).map((charge) => chargeRow(charge).trimEnd());
  }

  dropCharges(settledBefore: number, limit: number): number {
    return this.#charges.drop(settledBefore, limit);
  }

  usesBlobFile(file: number): boolean {
    for (const bundle of this.#ended.all()) {
      const range = blobRange(bundle);
      if (range && range.low <= file && file <= range.high) return true;
    }
    return this.sessions.usesBlobFile(file);
  }

  blobFiles(): number[] {
    const files = new Set<number>(this.sessions.blobFiles());
    for (const bundle of this.#ended.all()) {
      const range = blobRange(bundle);
      if (range) files.add(range.low).add(range.high);
    }
    return [...files];
  }

  close(): void {}
}
