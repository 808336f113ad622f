/**
 * The waiting jobs that the same backends can run. Interactive jobs go before batch jobs; once the oldest batch job has
 * waited `batchMaxWaitMs`, batch gets at least one pick in `batchShare`.
 */
import type { PickReason } from '../../model/causes.ts';
import type { JobSpec } from '../../model/job-spec.ts';
import type { AskRecord, JobClass, Labels } from '../../model/records.ts';
import type { Gate } from '../limits/gate.ts';
import type { LanePolicy } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { ClassQueue } from './class-queue.ts';
import { ServiceTimes } from './service-times.ts';

/** What a backend must offer to run the jobs of a lane. */
export interface Need {
  readonly kind: string | undefined;
  readonly type: string;
  readonly model: string | undefined;
  /** The exact reference of the model, if it is in the catalog. */
  readonly modelRef?: string | undefined;
  readonly contextTokens?: number | undefined;
  readonly labels: Labels | undefined;
}

/** The fields of an ask that decide which backends can run the job. */
export type NeedSource = Pick<AskRecord, 'modelRef' | 'contextTokens'> & {
  readonly spec: Pick<JobSpec, 'type' | 'backend' | 'model' | 'labels'>;
};

/** What a job needs now: a job of a route needs the model of its present step. */
export function needSourceOf({ ask, job: { place } }: Pick<JobEntry, 'ask' | 'job'>): NeedSource {
  if (!place) return ask;
  const { model, modelRef, contextTokens } = place;
  return { spec: { ...ask.spec, model }, modelRef, contextTokens };
}

/** Copies the fields, so that a lane does not keep its first job's ask in memory. */
export const needOf = ({ spec, modelRef, contextTokens }: NeedSource): Need => ({
  kind: spec.backend,
  type: spec.type,
  model: spec.model,
  modelRef,
  contextTokens,
  labels: spec.labels,
});

/** The key of a job's lane: jobs with the same key can be run by the same backends. */
export function laneKey({ spec, modelRef, contextTokens }: NeedSource): string {
  const { type, backend, model, labels } = spec;
  const labelNames = labels ? Object.keys(labels).sort() : [];
  if (backend === undefined && model === undefined && labelNames.length === 0) return type;
  let key = `${type}\n${backend ?? ''}\n${modelRef ?? model ?? ''}`;
  if (contextTokens !== undefined) key += `\n${contextTokens}`;
  // Label values are arbitrary text: as JSON, no value can be mistaken for another label.
  for (const name of labelNames) key += `\n${JSON.stringify([name, labels?.[name]])}`;
  return key;
}

/** A lane whose next job cannot start, although a backend is free. */
export interface HeldLane {
  readonly next: JobEntry;
  /** The version of the gates. */
  readonly at: number;
  /** The gate that holds it up, if one does. */
  readonly by: Gate | undefined;
}

/** The class whose job is picked next, and why. */
export interface ClassPick {
  readonly class: JobClass;
  readonly reason: Exclude<PickReason, 'sticky'>;
}

const ONLY_BATCH: ClassPick = { class: 'batch', reason: 'only-class' };
const ONLY_INTERACTIVE: ClassPick = { class: 'interactive', reason: 'only-class' };
const INTERACTIVE_FIRST: ClassPick = { class: 'interactive', reason: 'interactive-first' };
const BATCH_SHARE: ClassPick = { class: 'batch', reason: 'batch-share' };

/** The waiting jobs of a lane, and the measured service times of its ended jobs. */
export class LaneQueue {
  readonly key: string;
  readonly need: Need;
  readonly interactive = new ClassQueue();
  readonly batch = new ClassQueue();
  /** The times from acceptance to end, by class: interactive and batch jobs differ widely. */
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

  /** An interactive job of another lane took a slot that a batch job of this lane could have had. */
  passedOver(): void {
    if (this.batch.size > 0) this.#picksSinceBatch++;
  }

  take(pick: ClassPick): JobEntry | undefined {
    if (pick.class === 'batch') this.#picksSinceBatch = 0;
    else if (this.batch.size > 0) this.#picksSinceBatch++;
    return this.queueOf(pick.class).take();
  }

  /** An estimate of how many ready jobs go before `entry` in this lane. */
  positionOf(entry: JobEntry): number {
    const own = this.queueOf(entry.ask.spec.priority).positionOf(entry);
    return entry.ask.spec.priority === 'interactive' ? own : own + this.interactive.size;
  }

  measured(serviceMs: number, jobClass: JobClass = 'batch'): void {
    this.times[jobClass].add(serviceMs);
  }

  /** The mean service time of both classes together; undefined until one was measured. */
  get serviceMs(): number | undefined {
    const { interactive, batch } = this.times;
    const count = interactive.count + batch.count;
    if (count === 0) return undefined;
    return (interactive.count * (interactive.meanMs ?? 0) + batch.count * (batch.meanMs ?? 0)) / count;
  }
}
