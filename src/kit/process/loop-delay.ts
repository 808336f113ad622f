/**
 * Measures how late the event loop of this process is: a timer notes by how much it fires after its time. Time in which
 * the loop is blocked, or the process gets no CPU, shows here; an idle loop is not late.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** The timer's period; blocks that are shorter may be missed. */
const RESOLUTION_MS = 20;

export interface LoopDelay {
  readonly p50Sec: number;
  readonly p99Sec: number;
  readonly maxSec: number;
}

export class LoopDelayMeter {
  readonly #histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });

  constructor() {
    this.#histogram.enable();
  }

  /** The delay since the last call; all zero if the timer has not fired since. */
  take(): LoopDelay {
    const histogram = this.#histogram;
    const isEmpty = histogram.count === 0;
    const late = (nanoseconds: number): number =>
      isEmpty ? 0 : Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000);
    const delay = {
      p50Sec: late(histogram.percentile(50)),
      p99Sec: late(histogram.percentile(99)),
      maxSec: late(histogram.max),
    };
    histogram.reset();
    return delay;
  }
}
