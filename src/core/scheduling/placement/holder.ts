/** Finds the backends that have heard a conversation. */
import type { SessionThread } from '../../../model/session-record.ts';
import type { BackendEntry, Fleet, Lane } from '../../queue/fleet.ts';
import type { JobEntry } from '../../state/job-entry.ts';
import type { State } from '../../state/state.ts';

/** What backends have heard of the job's conversation; undefined if none has heard anything. */
export function threadsOf(state: State, { ask }: JobEntry): readonly SessionThread[] | undefined {
  const { session_id: session } = ask.spec;
  return session === undefined ? undefined : state.sessionOf(ask.tenant, session)?.threads;
}

export const canRun = (backend: BackendEntry, lane: Lane): boolean => backend.lanes.includes(lane);

/**
 * The free backend of a lane with the latest thread of a conversation: an older one that has heard more has heard what the
 * client has taken back since. Else the one that has heard the most; of two, the one that has heard the latest.
 */
export function freeHolder(
  fleet: Fleet,
  lane: Lane,
  threads: readonly SessionThread[],
  mayUse: (backend: BackendEntry) => boolean,
): BackendEntry | undefined {
  let best: BackendEntry | undefined;
  let most = -1;
  const latest = threads.at(-1);
  for (const held of threads) {
    const backend = fleet.backends.get(held.backend);
    if (!backend?.free || !canRun(backend, lane) || !mayUse(backend)) continue;
    if (held.heard < most && (held !== latest || held.thread === undefined)) continue;
    best = backend;
    most = held.heard;
  }
  return best;
}
