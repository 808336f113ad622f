/** What has happened in the last minute, as the triggers of governance ask for it; an observer of durable changes. */
import type { Clock } from '../../kit/env/env.ts';
import { MinuteCount } from '../../kit/minute-count.ts';
import { jobKindOf } from '../../model/governance.ts';
import type { AttemptRecord, Change } from '../../model/records.ts';
import { FAILED_TOOL } from '../../model/run-jobs.ts';
import type { ObservedState, Observer } from '../../runtime/observer.ts';

class Calls {
  readonly #all = new MinuteCount();
  readonly #failed = new MinuteCount();

  add(hasFailed: boolean, now: number): void {
    this.#all.add(1, now);
    if (hasFailed) this.#failed.add(1, now);
  }

  failureShare(now: number): number {
    const all = this.#all.sum(now);
    return all === 0 ? 0 : this.#failed.sum(now) / all;
  }
}

export class Activity implements Observer {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly tools = new Calls();
  readonly models = new Calls();
  readonly cost = new MinuteCount();
  readonly violations = new MinuteCount();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  recovered(): void {}

  changed(changes: readonly Change[], _now: number, observed: ObservedState): void {
    const now = this.#clock.monotonic();
    for (const { kind, after, cause } of changes) {
      if (kind === 'attempt' && after) this.#attempt(after, observed, now);
      if (kind === 'governance' && typeof cause === 'object' && cause.is === 'violation')
        this.violations.add(1, now);
    }
  }

  #attempt(attempt: AttemptRecord, observed: ObservedState, now: number): void {
    if (attempt.endedAt === undefined) return;
    this.cost.add(attempt.bill?.cost ?? 0, now);
    const ask = observed.job(attempt.job)?.ask;
    const kind = ask && jobKindOf(ask.spec);
    const hasFailed = attempt.outcome === 'failed' || attempt.label === FAILED_TOOL;
    if (kind === 'tools') this.tools.add(hasFailed, now);
    if (kind === 'models') this.models.add(hasFailed, now);
  }
}
