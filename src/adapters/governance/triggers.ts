/** Decides which triggers are due: those whose metric has been above its bound for their time, without a break. */
import type { Trigger, TriggerMetric } from '../../model/governance.ts';

export type Samples = Readonly<Record<TriggerMetric, number>>;

export class Triggers {
  readonly #triggers: readonly Trigger[];
  /** Since when the metric of a trigger is above its bound, by the name of the trigger. */
  readonly #since = new Map<string, number>();

  constructor(triggers: readonly Trigger[]) {
    this.#triggers = triggers;
  }

  /** The time of every trigger begins anew. */
  startAnew(): void {
    this.#since.clear();
  }

  /** `now` is monotonic: a step of the wall clock makes no trigger due. */
  due(samples: Samples, now: number): Trigger[] {
    return this.#triggers.filter(({ name, metric, above, forMs }) => {
      if (samples[metric] <= above) {
        this.#since.delete(name);
        return false;
      }
      const since = this.#since.get(name) ?? now;
      this.#since.set(name, since);
      return now - since >= forMs;
    });
  }
}
