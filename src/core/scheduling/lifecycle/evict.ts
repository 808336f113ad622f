/** Which workers should go so that another model finds room. A busy one never goes: it is drained first. */
import type { WorkerRecord } from '../../../model/records.ts';
import type { BackendEntry } from '../../fleet.ts';
import { backendOf } from '../../pools/pools.ts';
import type { PoolSettings } from '../../settings.ts';
import type { State } from '../../state.ts';
import type { Place } from './room.ts';

export interface Victim {
  readonly id: string;
  readonly record: WorkerRecord;
  readonly backend: BackendEntry | undefined;
  /** What is open on it, also where the fleet does not know it any more. */
  readonly used: number;
}

export type Making =
  /** These can go now, and then there is room. */
  | { readonly is: 'evict'; readonly victims: readonly Victim[] }
  /** These must finish first. */
  | { readonly is: 'drain'; readonly victims: readonly Victim[] }
  /** It will come by itself: workers are on their way out already. */
  | { readonly is: 'coming' }
  | { readonly is: 'none'; readonly why: string };

interface Asked {
  readonly state: State;
  readonly settings: PoolSettings;
  readonly now: number;
  /** Of the one who waits: whether he has waited long enough for others to be drained. */
  readonly mayDrain: boolean;
  /** Whether his model was itself sent away a short while ago: then the others have their time first. */
  readonly isBack: boolean;
}

/** What to do on one device so that so many bytes come free. */
export function makeRoom(asked: Asked, place: Place, needBytes: number): Making {
  const { state, settings, now } = asked;
  let missing = needBytes - place.freeBytes;
  const here = workersOn(state, place);
  for (const { record } of here) if (isLeaving(record)) missing -= record.vramBytes;
  if (missing <= 0) return { is: 'coming' };
  if (settings.eviction === 'manual') return { is: 'none', why: 'eviction is left to operators' };
  const idle = here.filter((each) => isIdle(each) && (!asked.isBack || mayGo(each, settings, now)));
  const evicted = take(idle.sort(leastWanted(settings.eviction, now)), missing);
  if (evicted) return { is: 'evict', victims: evicted };
  if (!asked.mayDrain) return { is: 'none', why: 'the workers there are in use' };
  const busy = here.filter((each) => !isLeaving(each.record) && isResident(each, settings, now));
  const drained = take(busy.sort(leastWanted(settings.eviction, now)), missing);
  return drained
    ? { is: 'drain', victims: drained }
    : { is: 'none', why: 'the workers there have just started' };
}

/** The first of them that together have as much as is missing. */
function take(sorted: readonly Victim[], missing: number): Victim[] | undefined {
  const taken: Victim[] = [];
  let bytes = 0;
  for (const victim of sorted) {
    taken.push(victim);
    bytes += victim.record.vramBytes;
    if (bytes >= missing) return taken;
  }
  return undefined;
}

function workersOn(state: State, { pool, device }: Place): Victim[] {
  return state.workers.on(pool.report.id, device.id).map(([id, record]) => ({
    id,
    record,
    backend: state.fleet.backends.get(backendOf(record.pool, id)),
    used: state.fleet.usedSlots(backendOf(record.pool, id)),
  }));
}

const isLeaving = ({ state }: WorkerRecord): boolean => state === 'stopping' || state === 'draining';

const isIdle = ({ record, used }: Victim): boolean => record.state === 'running' && used === 0;

/** One that nobody wants may go at once; one that is used has its time. */
function mayGo(victim: Victim, settings: PoolSettings, now: number): boolean {
  const isWanted = victim.backend?.lanes.some((lane) => lane.size > 0) ?? false;
  const isUsed = isWanted || now - lastUse(victim) < settings.minResidentMs;
  return !isUsed || isResident(victim, settings, now);
}

const isResident = ({ record }: Victim, settings: PoolSettings, now: number): boolean =>
  record.state === 'running' && now - record.at >= settings.minResidentMs;

export const lastUse = ({ record, backend }: Pick<Victim, 'record' | 'backend'>): number =>
  backend && backend.uses > 0 ? backend.idleSince : record.at;

/** Who goes first: without work before busy, then by the policy. */
function leastWanted(policy: PoolSettings['eviction'], now: number): (a: Victim, b: Victim) => number {
  const rate = ({ record, backend }: Victim): number => (backend?.uses ?? 0) / (now - record.at + 1);
  return (a, b) => {
    const waiting = waitingFor(a) - waitingFor(b);
    if (waiting !== 0) return waiting;
    return policy === 'lfu' ? rate(a) - rate(b) : lastUse(a) - lastUse(b);
  };
}

const waitingFor = ({ backend }: Victim): number =>
  backend?.lanes.reduce((sum, lane) => sum + lane.size, 0) ?? 0;
