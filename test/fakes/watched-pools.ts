/** Pools whose changes are heard of as a brain would tell them. */
import type { Step } from '../../src/core/engine.ts';
import type { EngineEvent } from '../../src/core/events.ts';
import type { Observer } from '../../src/runtime/parts.ts';
import { PoolKit } from './pool-engine.ts';

export class WatchedPools extends PoolKit {
  observer: Observer | undefined = undefined;

  override step(event: EngineEvent): Step {
    const step = super.step(event);
    this.observer?.changed(step.changes, this.now, this.engine.state);
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
