/** The place of a job that waits, as comments of its stream. */
import type { Cancel, Timers } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import type { Reads } from '../../runtime/reads.ts';

export interface PlaceParts {
  readonly reads: Reads;
  readonly timers: Timers;
  readonly uid: string;
  readonly tell: (comment: string) => void;
}

const POLL_MS = 1000;

/** Tells it now, and again when it has changed. */
export function tellPlace({ reads, timers, uid, tell }: PlaceParts): Cancel {
  let told: string | undefined;
  const look = (): void => {
    const comment = commentOf(reads, uid);
    if (comment !== undefined && comment !== told) tell(comment);
    told = comment ?? told;
  };
  look();
  return every(timers, POLL_MS, look);
}

function commentOf(reads: Reads, uid: string): string | undefined {
  const place = reads.place(uid);
  if (!place) return undefined;
  const words = [
    ': queued',
    ...(place.position === undefined ? [] : [`position=${place.position}`]),
    ...(place.predictedStartMs === undefined ? [] : [`predicted_start_ms=${place.predictedStartMs}`]),
  ];
  return `${words.join(' ')}\n\n`;
}
