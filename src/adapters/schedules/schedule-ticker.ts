/**
 * Has the ticks of all schedules decided when they are due. It keeps nothing that is not derived from the records: after a
 * restart, or at a new leader, it goes on from `tickedTo` of each.
 *
 * T1  Of one schedule one tick is decided at a time, in order.
 * T2  At most MAX_AT_ONCE schedules are at work at a time; the others wait in the order in which they are due.
 * T3  The wall clock may be set: no timer runs for longer than MAX_SLEEP_MS before the clock is read again. A step of more
 *     than a minute is believed only once it has stood for a minute (docs/decisions/0023): ticks that a clock which was
 *     wrong for a moment seemed to call for would leave out the real ones until then.
 */
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { type HeapPosition, IndexedHeap } from '../../kit/indexed-heap.ts';
import type { Logger } from '../../kit/logger.ts';
import { Service } from '../../kit/service.ts';
import { ownTurns } from '../../kit/slices.ts';
import { Ticks } from '../../kit/ticks.ts';
import { OrchdError } from '../../model/errors.ts';
import { scoped } from '../../model/records.ts';
import type { ScheduleRecord } from '../../model/schedule.ts';
import { BrainClock } from '../../runtime/brain-clock.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import { dueTicks } from './due.ts';

const MAX_AT_ONCE = 64;
const MAX_SLEEP_MS = 60_000;
/** Some milliseconds of a turn. */
const PLANNED_PER_TURN = 10;
/** After a job was refused for a reason that passes, such as a full queue. */
const RETRY: BackoffPolicy = { baseDelayMs: 1000, maxDelayMs: 60_000, jitter: 0.3 };

interface Planned {
  readonly id: string;
  readonly pattern: Ticks;
  /** When it is looked at next. */
  at: number;
  failures: number;
  position: number;
}

const POSITION: HeapPosition<Planned> = {
  get: ({ position }) => position,
  set: (planned, position) => {
    planned.position = position;
  },
};

export interface ScheduleTickerParts {
  readonly env: Pick<Env, 'clock' | 'timers' | 'random'>;
  readonly logger: Logger;
  readonly orchestrator: Pick<Orchestrator, 'schedules' | 'reads'>;
}

export class ScheduleTicker extends Service {
  readonly #parts: ScheduleTickerParts;
  readonly #clock: BrainClock;
  readonly #planned = new Map<string, Planned>();
  readonly #due = new IndexedHeap<Planned>((a, b) => a.at < b.at, POSITION);
  readonly #atWork = new Map<string, Promise<void>>();
  /** Schedules that were changed while one of their ticks was decided. */
  readonly #changed = new Set<string>();
  #timer: Cancel | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor(parts: ScheduleTickerParts) {
    super();
    this.#parts = parts;
    this.#clock = new BrainClock(parts.env.clock);
  }

  protected async onStart(): Promise<void> {
    const { schedules, reads } = this.#parts.orchestrator;
    this.#unsubscribe = schedules.subscribe((id) => void this.#look(id));
    await this.#planAll(await reads.schedules.records());
    this.#wake();
  }

  protected async onStop(): Promise<void> {
    this.#unsubscribe?.();
    this.#timer?.();
    await Promise.all(this.#atWork.values());
  }

  /** Reading an expression takes a while: that of many schedules is spread over turns of the event loop. */
  async #planAll(records: readonly ScheduleRecord[]): Promise<void> {
    const turns = ownTurns(this.#parts.env.timers);
    for (const [nth, record] of records.entries()) {
      if (nth % PLANNED_PER_TURN === 0) await turns.next();
      if (this.stopSignal.aborted) return;
      // One that is planned already was set meanwhile.
      if (!this.#planned.has(scoped(record.tenant, record.name))) this.#plan(record);
    }
  }

  /** A schedule was set or deleted. */
  async #look(id: string): Promise<void> {
    if (this.#atWork.has(id)) return void this.#changed.add(id);
    // A brain that has lost its store reads nothing any more; it is about to be stopped.
    const record = await this.#parts.orchestrator.reads.schedules.record(id).catch(() => undefined);
    if (this.#atWork.has(id)) return void this.#changed.add(id);
    if (record) this.#plan(record);
    else this.#forget(id);
    this.#wake();
  }

  #plan(record: ScheduleRecord): void {
    const id = scoped(record.tenant, record.name);
    const known = this.#planned.get(id);
    const pattern = known?.pattern.isOf(record) ? known.pattern : new Ticks(record);
    const at = pattern.after(record.tickedTo);
    if (known) this.#due.remove(known);
    if (at === undefined) return void this.#planned.delete(id);
    const planned: Planned = { id, pattern, at, failures: 0, position: -1 };
    this.#planned.set(id, planned);
    this.#due.push(planned);
  }

  #forget(id: string): void {
    const known = this.#planned.get(id);
    if (known) this.#due.remove(known);
    this.#planned.delete(id);
  }

  /** Begins what is due, and sleeps until the next is. */
  #wake(): void {
    if (this.stopSignal.aborted) return;
    this.#timer?.();
    this.#timer = undefined;
    const { env } = this.#parts;
    for (let next = this.#due.peek(); next; next = this.#due.peek()) {
      // T2: whoever ends wakes again.
      if (this.#atWork.size >= MAX_AT_ONCE) return;
      const waitMs = next.at - this.#clock.now();
      if (waitMs > 0) {
        this.#timer = env.timers.after(Math.min(waitMs, MAX_SLEEP_MS), () => this.#wake());
        return;
      }
      this.#due.remove(next);
      this.#begin(next);
    }
  }

  #begin(planned: Planned): void {
    const { id } = planned;
    const work = this.#decide(planned).finally(() => {
      this.#atWork.delete(id);
      if (this.#changed.delete(id)) void this.#look(id);
      this.#wake();
    });
    this.#atWork.set(id, work);
  }

  /** T1. */
  async #decide(planned: Planned): Promise<void> {
    const { orchestrator } = this.#parts;
    try {
      const record = await orchestrator.reads.schedules.record(planned.id);
      if (!record || !planned.pattern.isOf(record)) return void this.#changed.add(planned.id);
      // Many are due together after a pause, and finding the missed ticks of one may take a while.
      await ownTurns(this.#parts.env.timers).next();
      const { ticks, hasMissed, upTo, next } = dueTicks(record, planned.pattern, this.#clock.now());
      if (ticks.length === 0 && upTo !== undefined)
        await orchestrator.schedules.tick(record, { at: upTo, missed: 1, isMissed: true });
      for (const [nth, at] of ticks.entries()) {
        if (this.stopSignal.aborted) return;
        await orchestrator.schedules.tick(record, { at, missed: nth === 0 && hasMissed ? 1 : 0 });
      }
      planned.failures = 0;
      this.#again(planned, next);
    } catch (error) {
      this.#failed(planned, error);
    }
  }

  #again(planned: Planned, at: number | undefined): void {
    if (at === undefined) return void this.#planned.delete(planned.id);
    planned.at = at;
    this.#due.push(planned);
  }

  /** The tick is decided later; if more are due by then, the schedule's rule for missed ones says which. */
  #failed(planned: Planned, error: unknown): void {
    const { env, logger } = this.#parts;
    const delayMs = backoffMs(RETRY, ++planned.failures, env.random.next());
    const { code, message } =
      error instanceof OrchdError ? error : { code: undefined, message: String(error) };
    logger.warn('a tick of a schedule is tried again', {
      reason: `${planned.id}: ${message}`,
      error_code: code,
      duration_ms: Math.round(delayMs),
    });
    this.#again(planned, this.#clock.now() + delayMs);
  }
}
