/** Chooses the workers to evict or drain so that another model fits on a device. A busy worker is never evicted. */
import type { PoolSettings } from '../settings.ts';
import { type DeviceRoom, type DeviceWorker, isLeaving, mayLeave } from './room.ts';

interface Victims {
  readonly victims: readonly DeviceWorker[];
  /** The recency (lru) or frequency (lfu) of use of the most used victim: the lower, the cheaper the eviction. */
  readonly loss: number;
}

export type EvictionPlan =
  /** The victims are idle and can be stopped now. */
  | ({ readonly is: 'evict' } & Victims)
  /** The victims are busy and must finish their jobs first. */
  | ({ readonly is: 'drain' } & Victims)
  /** Nothing to do: workers that are already leaving will free enough memory. */
  | { readonly is: 'coming' }
  | { readonly is: 'none'; readonly why: string };

export interface EvictionRequest {
  readonly settings: PoolSettings;
  readonly now: number;
  /** The waiting job has waited longer than drainAfterMs, so busy workers may be drained for it. */
  readonly mayDrain: boolean;
  /** The waiting model was itself evicted within minResidentMs, so workers in use are kept for that long. */
  readonly wasJustEvicted: boolean;
}

const IN_USE: EvictionPlan = { is: 'none', why: 'the workers there are in use' };
const BY_HAND: EvictionPlan = { is: 'none', why: 'eviction is left to operators' };
const TOO_NEW: EvictionPlan = { is: 'none', why: 'the workers there have just started' };
const COMING: EvictionPlan = { is: 'coming' };

/** Decides which workers on one device to evict or drain to free needBytes. */
export function planEviction(request: EvictionRequest, room: DeviceRoom, needBytes: number): EvictionPlan {
  const { settings } = request;
  const missing = needBytes - room.freeBytes - room.leavingBytes;
  if (missing <= 0) return COMING;
  if (settings.eviction === 'manual') return BY_HAND;
  // The usual case while all workers are busy; kept cheap, as it runs for every device and every waiting model.
  if (room.idleBytes < missing && !request.mayDrain) return IN_USE;
  return choose(request, room.workers, missing);
}

/** Decides which worker of these devices to evict or drain so that another may start although as many run as may. */
export function planReplacement(request: EvictionRequest, rooms: readonly DeviceRoom[]): EvictionPlan {
  if (rooms.some(({ leavingBytes }) => leavingBytes > 0)) return COMING;
  if (request.settings.eviction === 'manual') return BY_HAND;
  const useful = request.mayDrain ? rooms : rooms.filter(({ idleBytes }) => idleBytes > 0);
  return choose(
    request,
    useful.flatMap(({ workers }) => workers),
    1,
  );
}

/** The workers to stop or drain, which have at least so many bytes. */
function choose(request: EvictionRequest, here: readonly DeviceWorker[], missing: number): EvictionPlan {
  const { settings, now } = request;
  const mayGo = (each: DeviceWorker): boolean =>
    mayLeave(each) && (!request.wasJustEvicted || mayBeEvicted(each, settings, now));
  const evicted = pick(here, mayGo, missing, settings.eviction, now);
  if (evicted) return { is: 'evict', ...evicted };
  if (!request.mayDrain) return IN_USE;
  const isSettled = (each: DeviceWorker): boolean =>
    each.record.workerPool === undefined && !isLeaving(each.record) && isResident(each, settings, now);
  const drained = pick(here, isSettled, missing, settings.eviction, now);
  return drained ? { is: 'drain', ...drained } : TOO_NEW;
}

/** The least used workers that may go, as many as free `missing` bytes; undefined if all of them free too little. */
function pick(
  here: readonly DeviceWorker[],
  mayGo: (each: DeviceWorker) => boolean,
  missing: number,
  policy: PoolSettings['eviction'],
  now: number,
): Victims | undefined {
  let bytes = 0;
  for (const each of here) if (mayGo(each)) bytes += each.record.vramBytes;
  // Mostly they free too little: then nothing needs to be sorted.
  if (bytes < missing) return undefined;
  const sorted = here.filter(mayGo).sort(byEvictionOrder(policy, now));
  const taken: DeviceWorker[] = [];
  for (let freed = 0; freed < missing; freed += (taken.at(-1) as DeviceWorker).record.vramBytes) {
    taken.push(sorted[taken.length] as DeviceWorker);
  }
  return { victims: taken, loss: useBy(policy, now)(taken.at(-1) as DeviceWorker) };
}

/** An unused worker may be evicted at once; a used one only after minResidentMs. */
function mayBeEvicted(each: DeviceWorker, settings: PoolSettings, now: number): boolean {
  const isWanted = each.backend?.lanes.some((lane) => lane.size > 0) ?? false;
  const isUsed = isWanted || now - lastUse(each) < settings.minResidentMs;
  return !isUsed || isResident(each, settings, now);
}

const isResident = ({ record }: DeviceWorker, settings: PoolSettings, now: number): boolean =>
  record.state === 'running' && now - record.at >= settings.minResidentMs;

/** When the worker last ended a job; its start if it has had none. */
export const lastUse = ({ record, backend }: Pick<DeviceWorker, 'record' | 'backend'>): number =>
  backend && backend.uses > 0 ? backend.idleSince : record.at;

/** The order of eviction: workers with the fewest waiting jobs first, then by the policy. */
function byEvictionOrder(
  policy: PoolSettings['eviction'],
  now: number,
): (a: DeviceWorker, b: DeviceWorker) => number {
  const use = useBy(policy, now);
  return (a, b) => waitingFor(a) - waitingFor(b) || use(a) - use(b);
}

/** How often (lfu) or how recently (lru) a worker was used. */
const useBy = (policy: PoolSettings['eviction'], now: number): ((each: DeviceWorker) => number) =>
  policy === 'lfu'
    ? ({ record, backend }) => (backend?.uses ?? 0) / (now - record.at + 1)
    : (each) => lastUse(each);

const waitingFor = ({ backend }: DeviceWorker): number =>
  backend?.lanes.reduce((sum, lane) => sum + lane.size, 0) ?? 0;
