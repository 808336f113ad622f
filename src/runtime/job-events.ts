/** The events of a job as an async iterator, for programs that embed the brain. */

import { OrchdError } from '../model/errors.ts';
import type { RelayedEvent } from '../relay/execution-log.ts';
import type { Follower, Sink } from '../relay/follower.ts';
import { cursorOf, FROM_THE_START, type ReaderPosition } from './following.ts';

export interface JobEvent {
  readonly type:
    | 'queued'
    | 'paused'
    | 'resumed'
    | 'waiting'
    | 'stale'
    | 'started'
    | 'token'
    | 'metrics'
    | 'reset'
    | 'end'
    | 'error';
  /**
   * `<attempt>.<n>`, or `<attempt>.end`: where to resume. Events made by the brain itself, such as `queued`, have
   * none.
   */
  readonly id?: string;
  readonly data: unknown;
}

/** Events that may wait for the consumer before the follower pauses; the relay keeps the later ones. */
const MAX_WAITING_EVENTS = 256;

function jobEvent({ id, event, data }: RelayedEvent): JobEvent {
  return { type: event as JobEvent['type'], data: JSON.parse(data), ...(id !== undefined && { id }) };
}

function readLarge(
  event: RelayedEvent,
  { value, after }: NonNullable<RelayedEvent['large']>,
): Promise<JobEvent> {
  const reading = value.open('later').then(({ bytes, release }) => {
    release();
    return jobEvent({ ...event, data: `${event.data}${bytes}${after}` });
  });
  // Whoever reads the events gets the failure; somebody who has stopped reading misses nothing.
  reading.catch(() => undefined);
  return reading;
}

export class EventQueue implements Sink {
  #events: (JobEvent | Promise<JobEvent>)[] = [];
  #ended = false;
  #wake: (() => void) | undefined;
  follower: Follower | undefined;

  write(events: readonly RelayedEvent[]): boolean {
    for (const event of events)
      this.#events.push(event.large ? readLarge(event, event.large) : jobEvent(event));
    this.#wake?.();
    return this.#events.length < MAX_WAITING_EVENTS;
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<JobEvent> {
    for (;;) {
      const events = this.#events;
      this.#events = [];
      for (const event of events) yield await event;
      if (this.#events.length > 0) continue;
      this.follower?.ready();
      if (this.#events.length > 0) continue;
      if (this.#ended) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

export interface FollowOptions {
  readonly tenant?: string;
  /** The id of the last event that the caller has received. */
  readonly after?: string | undefined;
  /** Ends the events while the next one is awaited, which return() of a generator does not. */
  readonly signal?: AbortSignal;
}

/** The events of a job until its end. */
export async function* followed(
  follow: (position: ReaderPosition, sink: EventQueue) => Promise<Follower | undefined>,
  { after, signal }: Omit<FollowOptions, 'tenant'>,
): AsyncGenerator<JobEvent> {
  const position = after === undefined ? FROM_THE_START : cursorOf(after);
  if (!position) throw new OrchdError('INVALID_PARAMS', `"${after}" is not an event id`, { field: 'after' });
  const queue = new EventQueue();
  const follower = await follow(position, queue);
  if (!follower) return;
  queue.follower = follower;
  const stop = (): void => queue.end();
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  try {
    yield* queue;
  } finally {
    signal?.removeEventListener('abort', stop);
    follower.close();
  }
}
