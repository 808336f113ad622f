/**
 * The jobs that the same backends can run. Interactive before batch; once the oldest batch job has waited
 * `batchMaxWaitMs`, batch gets at least one pick in `batchShare`.
 */
import type { PickReason } from '../../model/causes.ts';
import type { JobSpec } from '../../model/job-spec.ts';
import type { AskRecord, JobClass, Labels } from '../../model/records.ts';
import type { LanePolicy } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { ClassQueue } from './class-queue.ts';
import { ServiceTimes } from './service-times.ts';

/** What a backend must have to run the jobs of a lane. */
export interface Need {
  readonly kind: string | undefined;
  readonly type: string;
  readonly model: string | undefined;
  /** What the name of the model stands for, where the catalog knows it. */
  readonly modelRef?: string | undefined;
  readonly contextTokens?: number | undefined;
  readonly labels: Labels | undefined;
}

/** The part of a job's ask that says which backends can run it. */
export type NeedSource = Pick<AskRecord, 'modelRef' | 'contextTokens'> & {
  readonly spec: Pick<JobSpec, 'type' | 'backend' | 'model' | 'labels'>;
};

/** A copy, so that a lane does not keep the first job that came to it alive. */
export const needOf = ({ spec, modelRef, contextTokens }: NeedSource): Need => ({
  kind: spec.backend,
  type: spec.type,
  model: spec.model,
  modelRef,
  contextTokens,
  labels: spec.labels,
});

/** Jobs with the same key can be run by the same backends. */
export function laneKey({ spec, modelRef, contextTokens }: NeedSource): string {
  const { type, backend, model, labels } = spec;
  if (backend === undefined && model === undefined && labels === undefined) return type;
  let key = `${type}\n${backend ?? ''}\n${modelRef ?? model ?? ''}`;
  if (contextTokens !== undefined) key += `\n${contextTokens}`;
  if (labels) {
    // Values are any text: written so that none can look like another label.
    for (const name of Object.keys(labels).sort()) key += `\n${JSON.stringify([name, labels[name]])}`;
  }
  return key;
}

/** Which class is next, and why. */
export interface ClassPick {
  readonly class: JobClass;
  readonly reason: PickReason;
}

const ONLY_BATCH: ClassPick = { class: 'batch', reason: 'only-class' };
const ONLY_INTERACTIVE: ClassPick = { class: 'interactive', reason: 'only-class' };
const INTERACTIVE_FIRST: ClassPick = { class: 'interactive', reason: 'interactive-first' };
const BATCH_SHARE: ClassPick = { class: 'batch', reason: 'batch-share' };

/** How fast a measured service time follows new measurements. */
const SERVICE_SMOOTHING = 0.2;

/** The waiting jobs of a lane, and how long such jobs took. */
export class LaneQueue {
  readonly key: string;
  readonly need: Need;
  readonly interactive = new ClassQueue();
  readonly batch = new ClassQueue();
  /** Measured time from acceptance to end, smoothed; undefined until one was seen. */
  serviceMs: number | undefined;
  /** The same by class: people and batch work ask for very different things. */
  readonly times: Readonly<Record<JobClass, ServiceTimes>> = {
    interactive: new ServiceTimes(),
    batch: new ServiceTimes(),
  };
  #picksSinceBatch = 0;

  constructor(key: string, need: Need) {
    this.key = key;
    this.need = need;
  }

  get size(): number {
    return this.interactive.size + this.batch.size;
  }

  queueOf(jobClass: JobClass): ClassQueue {
    return jobClass === 'interactive' ? this.interactive : this.batch;
  }

  nextClass(policy: LanePolicy, now: number): ClassPick {
    if (this.batch.size === 0) return ONLY_INTERACTIVE;
    const isOwed = this.#picksSinceBatch >= policy.batchShare - 1 && this.#isAged(policy, now);
    if (isOwed) return BATCH_SHARE;
    return this.interactive.size === 0 ? ONLY_BATCH : INTERACTIVE_FIRST;
  }

  #isAged(policy: LanePolicy, now: number): boolean {
    const oldest = this.batch.oldest();
    return oldest !== undefined && now - oldest.readyAt >= policy.batchMaxWaitMs;
  }

  /** Interactive work of another lane took a backend that could have run batch work of this one. */
  passedOver(): void {
    if (this.batch.size > 0) this.#picksSinceBatch++;
  }

  take(pick: ClassPick): JobEntry | undefined {
    if (pick.class === 'batch') this.#picksSinceBatch = 0;
    else if (this.batch.size > 0) this.#picksSinceBatch++;
    return this.queueOf(pick.class).take();
  }

  /** About how many ready jobs go before `entry` in this lane. */
  positionOf(entry: JobEntry): number {
    const own = this.queueOf(entry.ask.spec.priority).positionOf(entry);
    return entry.ask.spec.priority === 'interactive' ? own : own + this.interactive.size;
  }

  measured(serviceMs: number, jobClass: JobClass = 'batch'): void {
    this.times[jobClass].add(serviceMs);
    this.serviceMs =
      this.serviceMs === undefined
        ? serviceMs
        : this.serviceMs + SERVICE_SMOOTHING * (serviceMs - this.serviceMs);
  }
}
