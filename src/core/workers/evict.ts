/** Which workers should go so that another model finds room. A busy one never goes: it is drained first. */
import type { PoolSettings } from '../settings.ts';
import { isIdle, isLeaving, type Place, type Resident } from './room.ts';

interface Picked {
  readonly victims: readonly Resident[];
  /** How much the most wanted of them is wanted. */
  readonly loss: number;
}

export type Making =
  /** These can go now, and then there is room. */
  | ({ readonly is: 'evict' } & Picked)
  /** These must finish first. */
  | ({ readonly is: 'drain' } & Picked)
  /** It will come by itself: workers are on their way out already. */
  | { readonly is: 'coming' }
  | { readonly is: 'none'; readonly why: string };

export interface Asked {
  readonly settings: PoolSettings;
  readonly now: number;
  /** Of the one who waits: whether he has waited long enough for others to be drained. */
  readonly mayDrain: boolean;
  /** Whether his model was itself sent away a short while ago: then the others have their time first. */
  readonly isBack: boolean;
}

const IN_USE: Making = { is: 'none', why: 'the workers there are in use' };
const BY_HAND: Making = { is: 'none', why: 'eviction is left to operators' };
const TOO_NEW: Making = { is: 'none', why: 'the workers there have just started' };
const COMING: Making = { is: 'coming' };

/** What to do on one device so that so many bytes come free. */
export function makeRoom(asked: Asked, place: Place, needBytes: number): Making {
  const { settings, now } = asked;
  const missing = needBytes - place.freeBytes - place.leavingBytes;
  if (missing <= 0) return COMING;
  if (settings.eviction === 'manual') return BY_HAND;
  // The usual answer while all are busy, and quick: it is given for every device to every model that waits.
  if (place.idleBytes < missing && !asked.mayDrain) return IN_USE;
  const here = place.residents;
  const mayGo = (each: Resident): boolean =>
    isIdle(each) && (!asked.isBack || hasHadItsTime(each, settings, now));
  const evicted = pick(here, mayGo, missing, settings.eviction, now);
  if (evicted) return { is: 'evict', ...evicted };
  if (!asked.mayDrain) return IN_USE;
  const isSettled = (each: Resident): boolean => !isLeaving(each.record) && isResident(each, settings, now);
  const drained = pick(here, isSettled, missing, settings.eviction, now);
  return drained ? { is: 'drain', ...drained } : TOO_NEW;
}

/** The least wanted of those that may go, as many as together have what is missing; undefined where they have not. */
function pick(
  here: readonly Resident[],
  mayGo: (each: Resident) => boolean,
  missing: number,
  policy: PoolSettings['eviction'],
  now: number,
): Picked | undefined {
  let bytes = 0;
  for (const each of here) if (mayGo(each)) bytes += each.record.vramBytes;
  // Mostly they have not: then nothing needs to be sorted.
  if (bytes < missing) return undefined;
  const sorted = here.filter(mayGo).sort(leastWanted(policy, now));
  const taken: Resident[] = [];
  for (let freed = 0; freed < missing; freed += (taken.at(-1) as Resident).record.vramBytes) {
    taken.push(sorted[taken.length] as Resident);
  }
  return { victims: taken, loss: wantedBy(policy, now)(taken.at(-1) as Resident) };
}

/** One that nobody wants has had it at once; one that is used gets so long. */
function hasHadItsTime(each: Resident, settings: PoolSettings, now: number): boolean {
  const isWanted = each.backend?.lanes.some((lane) => lane.size > 0) ?? false;
  const isUsed = isWanted || now - lastUse(each) < settings.minResidentMs;
  return !isUsed || isResident(each, settings, now);
}

const isResident = ({ record }: Resident, settings: PoolSettings, now: number): boolean =>
  record.state === 'running' && now - record.at >= settings.minResidentMs;

export const lastUse = ({ record, backend }: Pick<Resident, 'record' | 'backend'>): number =>
  backend && backend.uses > 0 ? backend.idleSince : record.at;

/** Who goes first: without work before busy, then by the policy. */
function leastWanted(policy: PoolSettings['eviction'], now: number): (a: Resident, b: Resident) => number {
  const wanted = wantedBy(policy, now);
  return (a, b) => waitingFor(a) - waitingFor(b) || wanted(a) - wanted(b);
}

/** How lately, or how often, it was used. */
const wantedBy = (policy: PoolSettings['eviction'], now: number): ((each: Resident) => number) =>
  policy === 'lfu'
    ? ({ record, backend }) => (backend?.uses ?? 0) / (now - record.at + 1)
    : (each) => lastUse(each);

const waitingFor = ({ backend }: Resident): number =>
  backend?.lanes.reduce((sum, lane) => sum + lane.size, 0) ?? 0;
