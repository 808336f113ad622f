/**
 * Keeps conversations on the backends that have heard them (FANO-7). A backend with a cache of a conversation is preferred
 * while it is free. One with a thread of its own is also waited for: whoever goes on elsewhere has to send everything
 * again, which costs `price` mean service times. A job waits while the predicted wait is below that, and in all no longer
 * than that; then it goes anywhere (docs/decisions/0038).
 */
import type { BackendEntry, Lane } from '../queue/fleet.ts';
import type { Queue } from '../queue/queue.ts';
import { type Holder, isUsable } from '../queue/sticky.ts';
import type { StickyPolicy } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineView } from '../turn.ts';
import { canRun, threadsOf } from './placement/holder.ts';
import { leftOn } from './predict.ts';

/** The service time that is assumed for a lane without a measurement. */
const UNMEASURED_MS = 30_000;

/** The price of moving a conversation of a lane, in milliseconds. */
export const priceMs = ({ price }: StickyPolicy, lane: Lane): number =>
  price * (lane.serviceMs ?? UNMEASURED_MS);

/** The backend with the latest thread of the job's conversation, if the job waits for it. */
export function holderOf(
  { state, queue }: EngineView,
  policy: StickyPolicy,
  entry: JobEntry,
  now: number,
): Holder | undefined {
  const { session_id: session, parallel } = entry.ask.spec;
  // Jobs that run beside others of their session do not go on in threads.
  if (session === undefined || parallel || !policy.enabled || policy.price === 0) return undefined;
  const latest = threadsOf(state, entry)?.at(-1);
  if (latest?.thread === undefined) return undefined;
  const backend = queue.fleet.backends.get(latest.backend);
  if (!backend || !isUsable(backend)) return undefined;
  const lane = queue.laneFor(entry);
  if (!canRun(backend, lane)) return undefined;
  const until = queue.sticky.since(entry, now) + priceMs(policy, lane);
  return now + waitMs(queue, backend, lane, now) <= until && until > now ? { backend, until } : undefined;
}

/** The predicted wait for a backend: what runs there, and the jobs that wait for it. */
function waitMs(queue: Queue, backend: BackendEntry, lane: Lane, now: number): number {
  const mean = lane.serviceMs ?? UNMEASURED_MS;
  const slots = Math.max(1, Math.min(backend.info.slots, backend.slotLimit));
  const ahead = (queue.sticky.waitingFor(backend.info.name) * mean) / slots;
  const blocked = Math.max(0, backend.blockedUntil - now);
  return Math.max(blocked, backend.used < slots ? 0 : leftOn(backend, lane, mean, now) / slots) + ahead;
}
