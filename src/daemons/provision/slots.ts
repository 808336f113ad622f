/** All processes of a provisioner: as many of each worker pool as its row wishes. */
import type { WorkerPoolView } from '../../model/http/worker-pools.ts';
import type { SlotRecord } from './layout.ts';
import { planSize, type Wish } from './size-plan.ts';
import { Slot, type SlotCommand, type SlotContext } from './slot.ts';

export interface SlotsParts {
  readonly context: SlotContext;
  /** Processes of one worker pool at most. */
  readonly max: number;
  readonly commandFor: (row: WorkerPoolView, record: Pick<SlotRecord, 'pool' | 'n'>) => SlotCommand;
}

export class Slots {
  readonly #parts: SlotsParts;
  /** By worker pool, then by number. */
  readonly #pools = new Map<string, Map<number, Slot>>();

  constructor(parts: SlotsParts) {
    this.#parts = parts;
  }

  async adopt(records: readonly SlotRecord[]): Promise<void> {
    for (const record of records) {
      const slot = this.#add(record);
      await slot.adopt();
    }
  }

  get pools(): readonly string[] {
    return [...this.#pools.keys()];
  }

  get isEmpty(): boolean {
    return this.#pools.size === 0;
  }

  /** The processes of a worker pool that run, those included that are about to end. */
  countOf(pool: string): number {
    return this.#of(pool).filter(({ lives }) => lives).length;
  }

  get count(): number {
    return this.pools.reduce((sum, pool) => sum + this.countOf(pool), 0);
  }

  trimLogs(): void {
    for (const pool of this.pools) for (const slot of this.#of(pool)) slot.trimLog();
  }

  /** Looks at all processes, and frees the names of those that have ended. */
  async look(): Promise<void> {
    for (const [pool, slots] of this.#pools) {
      for (const [n, slot] of slots) if (!(await slot.look())) slots.delete(n);
      if (slots.size === 0) this.#pools.delete(pool);
    }
  }

  /** Starts and ends processes of a worker pool. `row` is undefined only where none is wished. */
  async apply(pool: string, row: WorkerPoolView | undefined, wish: Wish): Promise<void> {
    const since = row?.started_at ?? -1;
    const views = this.#of(pool).map((slot) => slot.view(since));
    const { start, finish, kill } = planSize(views, wish, this.#parts.max);
    const slot = (n: number): Slot | undefined => this.#pools.get(pool)?.get(n);
    for (const n of finish) await slot(n)?.end('finish');
    for (const n of kill) await slot(n)?.end('kill');
    if (!row) return;
    for (const each of this.#of(pool))
      if (each.isDue) await each.start(this.#parts.commandFor(row, each.record));
    for (const n of start) await this.#start(row, { v: 1, pool, n, poolSince: since, start: '' });
  }

  async finishAll(): Promise<void> {
    for (const pool of this.pools) for (const slot of this.#of(pool)) await slot.end('finish');
  }

  async #start(row: WorkerPoolView, record: SlotRecord): Promise<void> {
    const slot = this.#add(record);
    try {
      await slot.start(this.#parts.commandFor(row, record));
    } catch (error) {
      this.#pools.get(record.pool)?.delete(record.n);
      throw error;
    }
  }

  #add(record: SlotRecord): Slot {
    const slot = new Slot(this.#parts.context, record);
    const slots = this.#pools.get(record.pool) ?? new Map<number, Slot>();
    this.#pools.set(record.pool, slots.set(record.n, slot));
    return slot;
  }

  #of(pool: string): Slot[] {
    return [...(this.#pools.get(pool)?.values() ?? [])];
  }
}
