/** Measurements of conversations: whether their turns go to the backends that have heard them, and wait for these. */
import type { Registry } from 'prom-client';
import type { ClaimCause } from '../model/causes.ts';
import type { Figures } from '../runtime/figures.ts';
import { counter, gauge, type Sample, single } from './family.ts';

export class ConversationTally {
  /** Starts of jobs of sessions, by whether the chosen backend has heard the conversation; `new`: none has. */
  readonly turns = { held: 0, moved: 0, new: 0 };
  /** Starts of jobs that have waited for the backend with their conversation, by whether they got it. */
  readonly waits = { held: 0, moved: 0 };

  /** A job of a session is about to start. */
  claimed({ place = '' }: ClaimCause): void {
    const context = CONTEXTS[place];
    this.turns[context ?? 'new']++;
    if (context && place.endsWith(AFTER_WAIT)) this.waits[context]++;
  }
}

const AFTER_WAIT = '-after-wait';

/** Whether a backend had the conversation, by why the job was placed there. */
const CONTEXTS: Readonly<Record<string, 'held' | 'moved'>> = {
  context: 'held',
  [`context${AFTER_WAIT}`]: 'held',
  moved: 'moved',
  [`moved${AFTER_WAIT}`]: 'moved',
};

export function conversationMetrics(
  figures: () => Figures,
  { turns, waits }: ConversationTally,
  registry: Registry,
): void {
  counter({
    name: 'orchd_conversation_turns_total',
    help: 'Starts of jobs of sessions, by whether the chosen backend has heard the conversation',
    registry,
    samples: () => Object.entries(turns).map(([context, count]): Sample => [{ context }, count]),
  });
  counter({
    name: 'orchd_sticky_waits_total',
    help: 'Starts of jobs that have waited for the backend with their conversation, by whether they got it',
    registry,
    samples: () => Object.entries(waits).map(([context, count]): Sample => [{ context }, count]),
  });
  gauge({
    name: 'orchd_jobs_parked_sticky',
    help: 'Jobs that wait for the backend with their conversation',
    registry,
    samples: () => single(figures().sticky),
  });
}
