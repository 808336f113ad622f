/** Reports the queue position of a waiting job as SSE comments, which clients of OpenAI ignore. */
import type { Cancel, Timers } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import type { Reads } from '../../runtime/reads.ts';

export interface QueuePositionParts {
  readonly reads: Reads;
  readonly timers: Timers;
  readonly uid: string;
  readonly send: (comment: string) => void;
}

const POLL_INTERVAL_MS = 1000;

/** Sends the position now, and again whenever a poll finds it changed. */
export function reportQueuePosition({ reads, timers, uid, send }: QueuePositionParts): Cancel {
  let lastSent: string | undefined;
  const poll = (): void => {
    const comment = commentOf(reads, uid);
    if (comment !== undefined && comment !== lastSent) send(comment);
    lastSent = comment ?? lastSent;
  };
  poll();
  return every(timers, POLL_INTERVAL_MS, poll);
}

function commentOf(reads: Reads, uid: string): string | undefined {
  const waiting = reads.queuePosition(uid);
  if (!waiting) return undefined;
  const words = [
    ': queued',
    ...(waiting.position === undefined ? [] : [`position=${waiting.position}`]),
    ...(waiting.predictedStartMs === undefined ? [] : [`predicted_start_ms=${waiting.predictedStartMs}`]),
  ];
  return `${words.join(' ')}\n\n`;
}
