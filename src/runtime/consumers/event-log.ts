/**
 * The events that consumers send of their attempts, passed on to the followers of the jobs. The first event of an attempt
 * is made here: that it has started. So the event with number n of a consumer is number n + 1 of its attempt.
 */
import { afterOutput } from '../../core/attempts/ending.ts';
import type { Engine } from '../../core/engine/engine.ts';
import type { ExecutionEvent } from '../../core/ports/backend.ts';
import type { JobEntry } from '../../core/state/job-entry.ts';
import { type ConsumerRecord, consumerId } from '../../model/consumer-record.ts';
import type { ConsumerEvents } from '../../model/http/consumers.ts';
import type { Loop } from '../loop.ts';

type ConsumerEvent = ConsumerEvents['events'][number];

export interface EventLogParts {
  readonly engine: Engine;
  readonly loop: Pick<Loop, 'post'>;
  readonly onEvent: (entry: JobEntry, event: ExecutionEvent) => void;
}

/** How far the events of one attempt have come. */
interface Progress {
  readonly token: string;
  n: number;
  hasOutput: boolean;
}

export class EventLog {
  readonly #parts: EventLogParts;
  /** Of the open attempt of each job. */
  readonly #progress = new WeakMap<JobEntry, Progress>();

  constructor(parts: EventLogParts) {
    this.#parts = parts;
  }

  /** Returns the tokens that the consumer does not hold. */
  take(consumer: ConsumerRecord, events: readonly ConsumerEvent[]): Set<string> {
    const lost = new Set<string>();
    for (const event of events) {
      const entry = this.#parts.engine.state.open.get(event.token);
      if (entry && isHeldBy(entry, consumer)) this.#take(entry, event);
      else lost.add(event.token);
    }
    return lost;
  }

  /** The consumer holds the attempt, and has begun. */
  started(entry: JobEntry): void {
    this.#progressOf(entry);
  }

  /** The number of the last event that was taken. */
  taken(entry: JobEntry): number {
    return this.#progressOf(entry).n;
  }

  /** An event that was taken before is ignored, and so is one that comes too early: the consumer sends it again. */
  #take(entry: JobEntry, { n, type, data, gap }: ConsumerEvent): void {
    const progress = this.#progressOf(entry);
    if (gap ? n <= progress.n : n !== progress.n + 1) return;
    progress.n = n;
    if (type === 'token' && !progress.hasOutput) this.#noteOutput(entry, progress);
    this.#parts.onEvent(entry, { n: n + 1, type, data });
  }

  #noteOutput(entry: JobEntry, progress: Progress): void {
    progress.hasOutput = true;
    if (afterOutput(entry.ask) === 'fail') this.#parts.loop.post({ type: 'output', token: entry.token });
  }

  #progressOf(entry: JobEntry): Progress {
    const known = this.#progress.get(entry);
    if (known?.token === entry.token) return known;
    const progress = { token: entry.token, n: 0, hasOutput: false };
    this.#progress.set(entry, progress);
    const { ask, open } = entry;
    const data = { job_id: ask.id, model: ask.spec.model, started_at: open?.acceptedAt };
    this.#parts.onEvent(entry, { n: 1, type: 'started', data });
    return progress;
  }
}

const isHeldBy = ({ open }: JobEntry, { pool, name, fence }: ConsumerRecord): boolean =>
  open?.state === 'accepted' &&
  open.holder?.fence === fence &&
  open.holder.consumer === consumerId(pool, name);
