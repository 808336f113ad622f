/** Chooses the free backend of a lane that gets a job, by the configured algorithm. */

import type { BackendEntry, Lane } from '../../queue/fleet.ts';
import type { EngineSettings, PoolSettings } from '../../settings.ts';
import type { JobEntry } from '../../state/job-entry.ts';
import type { State } from '../../state/state.ts';
import type { EngineView } from '../../turn.ts';
import { freeHolder, threadsOf } from './holder.ts';
import { choose, type PlacementCandidate } from './score.ts';

export interface Placement {
  readonly backend: BackendEntry;
  readonly reason: string;
}

export type PlaceSettings = Pick<EngineSettings, 'pools' | 'sticky'>;

const ANY = (): boolean => true;

/** The free backend that has heard the most of the job's conversation, or else the one that the algorithm chooses. */
export function place(
  { state, queue }: EngineView,
  { pools, sticky }: PlaceSettings,
  lane: Lane,
  entry: JobEntry,
  mayUse: (backend: BackendEntry) => boolean = ANY,
): Placement | undefined {
  const threads = sticky.enabled ? threadsOf(state, entry) : undefined;
  if (!threads) return placeNew(state, pools, lane, entry, mayUse);
  const holder = freeHolder(queue.fleet, lane, threads, mayUse);
  if (holder) return { backend: holder, reason: 'context' };
  const placed = placeNew(state, pools, lane, entry, mayUse);
  return placed && { ...placed, reason: 'moved' };
}

function placeNew(
  state: State,
  settings: PoolSettings,
  lane: Lane,
  entry: JobEntry,
  mayUse: (backend: BackendEntry) => boolean,
): Placement | undefined {
  if (isPlain(settings, lane, entry)) {
    const backend = leastLoaded(lane, mayUse);
    return backend && { backend, reason: 'least-loaded' };
  }
  const free = lane.backends.filter((backend) => backend.free && mayUse(backend));
  const candidates = free.map((backend) => candidateOf(state, backend));
  const region = entry.ask.spec.region ?? settings.region;
  const choice = choose(settings.placement, candidates, { region, cursor: lane.lastOrder });
  if (!choice) return undefined;
  const backend = free[choice.index] as BackendEntry;
  lane.lastOrder = backend.order;
  return { backend, reason: choice.reason };
}

/** Whether only the load can decide: the usual case, which needs no list of candidates. */
function isPlain(settings: PoolSettings, lane: Lane, { ask }: JobEntry): boolean {
  if (lane.freeBackends === 1) return true;
  const isNear = ask.spec.region === undefined && settings.region === undefined;
  return settings.placement === 'least-loaded' && isNear;
}

function candidateOf(state: State, backend: BackendEntry): PlacementCandidate {
  const { info, used, lastPick, order, decodeSpeed } = backend;
  const device = info.home && state.pools.device(info.home.pool, info.home.device);
  return {
    name: info.name,
    used,
    slots: info.slots,
    vramFree: device?.availableBytes ?? 0,
    vramTotal: device?.totalBytes ?? 0,
    lastPick,
    order,
    decodeTokensPerSec: decodeSpeed,
    region: info.labels['region'],
  };
}

/** The free backend with the smallest share of used slots; among equals the one that got a job least recently. */
export function leastLoaded(
  lane: Lane,
  mayUse: (backend: BackendEntry) => boolean = () => true,
): BackendEntry | undefined {
  let best: BackendEntry | undefined;
  for (const backend of lane.backends) {
    if (!backend.free || !mayUse(backend)) continue;
    if (!best) {
      best = backend;
      continue;
    }
    const load = backend.used / backend.info.slots;
    const bestLoad = best.used / best.info.slots;
    if (load < bestLoad || (load === bestLoad && backend.lastPick < best.lastPick)) best = backend;
  }
  return best;
}
