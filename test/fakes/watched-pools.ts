/** Pools whose changes are heard of as a brain would tell them. */

import type { EngineEvent } from '../../src/core/engine/areas.ts';
import type { Step } from '../../src/core/engine/engine.ts';
import { type Observer, observedStateOf } from '../../src/runtime/observer.ts';
import { Reads, type ReadsParts } from '../../src/runtime/reads.ts';
import { PoolKit } from './pool-engine.ts';

export class WatchedPools extends PoolKit {
  observer: Observer | undefined = undefined;
  /** Without a store everything counts as durable. */
  readonly reads = new Reads({
    engine: this.engine,
    loop: { durable: async () => undefined, durableSeq: Number.POSITIVE_INFINITY },
    clock: { now: () => this.now },
  } as unknown as ReadsParts);

  override step(event: EngineEvent): Step {
    const step = super.step(event);
    this.observer?.changed(step.changes, this.now, observedStateOf(this.engine));
    return step;
  }

  watch(observer: Observer): void {
    this.observer = observer;
    observer.recovered(this.engine.state.jobs.values());
  }

  /** The id of the worker that has a job, without its pool. */
  workerIdOf(jobId: string): string {
    return this.workerOf(jobId).split('/')[1] ?? '';
  }
}
