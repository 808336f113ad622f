/** Reads of schedules. */
import type { Engine } from '../core/engine/engine.ts';
import { OrchdError } from '../model/errors.ts';
import type { SchedulePage, ScheduleView } from '../model/http/schedules.ts';
import { DEFAULT_TENANT, scoped } from '../model/records.ts';
import type { ScheduleRecord } from '../model/schedule.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';
import { schedulesAfter, scheduleView } from './schedule-view.ts';
import { whenDurable } from './when-durable.ts';

export interface ScheduleReadsParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly clock: BrainClock;
}

export class ScheduleReads {
  readonly #parts: ScheduleReadsParts;

  constructor(parts: ScheduleReadsParts) {
    this.#parts = parts;
  }

  async get(name: string, tenant = DEFAULT_TENANT): Promise<ScheduleView> {
    const record = await this.record(scoped(tenant, name));
    if (!record) throw new OrchdError('NOT_FOUND', `there is no schedule "${name}"`);
    return scheduleView(record, this.#parts.clock.now());
  }

  /** A page of a tenant's schedules in the order of their names, from the one after `after` on. */
  async list(tenant = DEFAULT_TENANT, after = '', limit = 100): Promise<SchedulePage> {
    const { page, next } = schedulesAfter(await this.records(), tenant, after, limit);
    const now = this.#parts.clock.now();
    const schedules = page.map((record) => scheduleView(record, now));
    return { schedules, ...(next !== undefined && { next }) };
  }

  /** All schedules as the brain keeps them. */
  records(): Promise<readonly ScheduleRecord[]> {
    return this.#whenDurable([...this.#parts.engine.state.tables.schedule.values()]);
  }

  record(id: string): Promise<ScheduleRecord | undefined> {
    return this.#whenDurable(this.#parts.engine.state.tables.schedule.get(id));
  }

  #whenDurable<T>(value: T | Promise<T>): Promise<T> {
    return whenDurable(this.#parts, value);
  }
}
