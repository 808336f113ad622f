/**
 * Measures how late the event loop of this process is: a timer notes by how much it fires after its time. Time in which
 * the loop is blocked, or the process gets no CPU, shows here; an idle loop is not late.
 *
 * The histogram measures from one firing of the timer to the next one, and knows nothing of the time before the first and
 * after the last: a loop that is blocked all the time would never be late. The meter adds that time.
 */
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';

/** The timer's period; blocks that are shorter may be missed. */
const RESOLUTION_MS = 20;

export interface LoopDelay {
  readonly p50Sec: number;
  readonly p99Sec: number;
  readonly maxSec: number;
}

export class LoopDelayMeter {
  readonly #histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });

  #takenAt = performance.now();

  constructor() {
    this.#histogram.enable();
  }

  /** The delay since the last call. */
  take(): LoopDelay {
    const histogram = this.#histogram;
    const isEmpty = histogram.count === 0;
    const takenAt = performance.now();
    const seenMs = isEmpty ? 0 : (histogram.mean * histogram.count) / 1e6;
    const unseenSec = (takenAt - this.#takenAt - seenMs - 2 * RESOLUTION_MS) / 1000;
    this.#takenAt = takenAt;
    const late = (nanoseconds: number): number =>
      isEmpty ? 0 : Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000);
    const delay = {
      p50Sec: late(histogram.percentile(50)),
      p99Sec: late(histogram.percentile(99)),
      maxSec: Math.max(late(histogram.max), unseenSec, 0),
    };
    histogram.reset();
    return delay;
  }
}
