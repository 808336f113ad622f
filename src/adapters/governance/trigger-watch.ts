/**
 * Looks at the metrics of triggers every second, and changes the mode where one is due. It never leads the way back. When a
 * person does, the time of every trigger begins anew: what has brought the mode about may last, such as the jobs that could
 * not start in LOCKDOWN.
 */

import type { Cancel, Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { LoopDelayMeter } from '../../kit/process/loop-delay.ts';
import { Service } from '../../kit/service.ts';
import { ESCALATIONS, type Mode, type Trigger } from '../../model/governance.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import type { Activity } from './activity.ts';
import { type Samples, Triggers } from './triggers.ts';

const INTERVAL_MS = 1000;

export interface TriggerWatchParts {
  readonly env: Pick<Env, 'clock' | 'timers'>;
  readonly logger: Logger;
  readonly orchestrator: Pick<Orchestrator, 'governance' | 'reads'>;
  readonly activity: Activity;
  readonly triggers: readonly Trigger[];
}

export class TriggerWatch extends Service {
  readonly #parts: TriggerWatchParts;
  readonly #triggers: Triggers;
  readonly #loopDelay = new LoopDelayMeter();
  #timer: Cancel | undefined;
  #isStopped = false;
  /** The mode at the last look. */
  #mode: Mode | undefined;

  constructor(parts: TriggerWatchParts) {
    super();
    this.#parts = parts;
    this.#triggers = new Triggers(parts.triggers);
  }

  protected override async onStart(): Promise<void> {
    if (this.#parts.triggers.length > 0) this.#wait();
  }

  protected override async onStop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.();
  }

  #wait(): void {
    if (this.#isStopped) return;
    this.#timer = this.#parts.env.timers.after(INTERVAL_MS, () => void this.#look().then(() => this.#wait()));
  }

  async #look(): Promise<void> {
    const { env, orchestrator, logger } = this.#parts;
    const { governance } = orchestrator;
    this.#noteMode(governance.mode);
    const samples = this.#samples();
    for (const { name, metric, above, forMs, to } of this.#triggers.due(samples, env.clock.monotonic())) {
      if (!ESCALATIONS[governance.mode].includes(to)) continue;
      const why = `${metric} is ${samples[metric]}, above ${above} for ${forMs} ms`;
      try {
        await governance.setByTrigger(to, name, why);
      } catch (error) {
        logger.warn('a trigger of governance could not change the mode', {
          reason: (error as Error).message,
        });
      }
    }
  }

  #noteMode(mode: Mode): void {
    const former = this.#mode ?? mode;
    if (former !== mode && !ESCALATIONS[former].includes(mode)) this.#triggers.startAnew();
    this.#mode = mode;
  }

  #samples(): Samples {
    const { env, orchestrator, activity } = this.#parts;
    const now = env.clock.monotonic();
    return {
      tool_error_rate: activity.tools.failureShare(now),
      model_error_rate: activity.models.failureShare(now),
      cost_per_minute: activity.cost.sum(now),
      violations_per_minute: activity.violations.sum(now),
      loop_delay_ms: this.#loopDelay.take().maxSec * 1000,
      queued_jobs: orchestrator.reads.figures().jobs.queued,
    };
  }
}
