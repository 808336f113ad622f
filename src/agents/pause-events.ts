/**
 * The pauses of a run among its other events. A pause is told at once, also in the middle of a step that lasts. While the
 * run is paused the ids of all events say that the reader knows it, so that one who comes back learns what has changed.
 */
import { merged } from '../kit/merged.ts';
import { split } from '../kit/split.ts';
import { isTerminal } from '../model/states.ts';
import type { JobEvent } from '../runtime/job-events.ts';
import type { RunEvent, RunSources } from './call-events.ts';
import { idOf, placeId, type RunPlace } from './run-place.ts';

const isPauseEvent = ({ type }: JobEvent): boolean => type === 'paused' || type === 'resumed';

/** `others` makes the other events of the run from those of its job. */
export async function* withPauses(
  sources: RunSources,
  runId: string,
  after: RunPlace | undefined,
  others: (ofJob: AsyncGenerator<JobEvent>) => AsyncGenerator<RunEvent>,
): AsyncGenerator<RunEvent> {
  const told = new ToldPauses(after);
  if (after?.isPaused) {
    const { paused, state } = await sources.read(runId);
    if (!paused && !isTerminal(state)) yield* told.events({ event: 'resumed', data: { job_id: runId } });
  }
  const { first: pauses, rest, stop } = split(sources.follow(runId), isPauseEvent);
  try {
    for await (const event of merged([others(rest), pauseEvents(pauses)], { untilFirst: true }))
      yield* told.events(event);
  } finally {
    stop();
  }
}

async function* pauseEvents(pauses: AsyncGenerator<JobEvent>): AsyncGenerator<RunEvent> {
  for await (const { type, data } of pauses) yield { event: type as 'paused' | 'resumed', data };
}

/** What one reader knows about the pauses of a run. */
class ToldPauses {
  #isPaused: boolean;
  /** Where the reader is; undefined before the first event with an id. */
  #id: string | undefined;

  constructor(after: RunPlace | undefined) {
    this.#isPaused = after?.isPaused ?? false;
    this.#id = after && idOf(after);
  }

  /** The event as the reader gets it; nothing for a pause that it knows already. */
  *events({ id, event, data }: RunEvent): Generator<RunEvent> {
    const isPause = event === 'paused' || event === 'resumed';
    if (isPause) {
      const isPaused = event === 'paused';
      if (isPaused === this.#isPaused) return;
      this.#isPaused = isPaused;
    } else if (id !== undefined) this.#id = id;
    const own = isPause ? this.#id : id;
    yield own === undefined ? { event, data } : { id: placeId(own, this.#isPaused), event, data };
  }
}
