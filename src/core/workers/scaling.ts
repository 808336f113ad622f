/**
 * What an autoscaler asks of a pool: how much waits for it, how much it runs, and how many of its members would be enough.
 * Read from memory; the work is bounded by the lanes with waiting jobs.
 */
import { backendOfPool, CONSUMERS_KIND, type ConsumerRecord } from '../../model/consumer-record.ts';
import { fits } from '../queue/fits.ts';
import { type BackendEntry, type Lane, usableSlots } from '../queue/fleet.ts';
import { predictLastStartMs } from '../scheduling/predict.ts';
import type { PoolEntry } from '../state/pools.ts';
import type { State } from '../state/state.ts';
import type { EngineView } from '../turn.ts';
import { startHints } from './forecast.ts';
import { hasLabels } from './room.ts';

export interface Scaling {
  readonly kind: 'consumers' | 'workers';
  /** Jobs in the lanes that the pool can serve; other pools may serve them too. */
  readonly waiting: number;
  /** When the last of them is expected to start; undefined where nothing is known of it. */
  readonly predictedWaitMs: number | undefined;
  /** Slots in use. */
  readonly running: number;
  /** Slots that can be used. */
  readonly slots: number;
  /** Consumers or workers that take jobs. */
  readonly members: number;
  /** So many members have a slot for each job that waits or runs. */
  readonly wished: number;
}

/** Lanes whose waits are predicted, those with the most jobs: an autoscaler asks every second. */
const MAX_PREDICTED_LANES = 16;

/** Undefined for a pool that neither consumers nor a pool manager have named. Consumers come first. */
export function scalingOf(view: EngineView, pool: string, now: number): Scaling | undefined {
  const consumers = view.state.consumers.ofPool(pool);
  if (consumers.length > 0) {
    const live = consumers.filter(({ state }) => state === 'live').length;
    const backend = view.queue.fleet.backends.get(backendOfPool(pool));
    const lanes = lanesFor(view, consumers);
    const slotsEach = mean(consumers.map(({ slots }) => slots));
    return summary(
      view,
      { kind: 'consumers', lanes, backends: backend ? [backend] : [], members: live, slotsEach },
      now,
    );
  }
  const entry = view.state.pools.known.get(pool);
  return entry && workersScaling(view, pool, entry, now);
}

function workersScaling(view: EngineView, pool: string, entry: PoolEntry, now: number): Scaling {
  const { state, queue } = view;
  const backends = [...queue.fleet.backends.values()].filter(({ info }) => info.home?.pool === pool);
  const lanes = waitingLanes(view).filter(
    (lane) => lane.backends.some(({ info }) => info.home?.pool === pool) || couldStart(state, entry, lane),
  );
  const open = backends.filter(isOpen);
  const slotsEach = open.length === 0 ? 1 : mean(open.map(({ info }) => info.slots));
  return summary(view, { kind: 'workers', lanes, backends, members: open.length, slotsEach }, now);
}

/** The lanes that the consumers of a pool can serve. Silent ones too say what their pool is for, so that one is started. */
function lanesFor(view: EngineView, consumers: readonly ConsumerRecord[]): Lane[] {
  const declaring = consumers.find(({ state }) => state !== 'silent') ?? consumers[0];
  if (!declaring) return [];
  const { pool, types, models, labels } = declaring;
  const declared = { kind: CONSUMERS_KIND, types, models, labels: { ...labels, pool } };
  return waitingLanes(view).filter(({ need }) => fits(need, declared));
}

/** The jobs that no consumer of a pool has claimed, of every pool of consumers: those in its lanes, and those offered to it. */
export function unclaimedByPool(view: EngineView): { readonly pool: string; readonly jobs: number }[] {
  const { consumers, pulled } = view.state;
  return Array.from(consumers.pools(), (pool) => {
    const inLanes = sizeOf(lanesFor(view, consumers.ofPool(pool)));
    return { pool, jobs: inLanes + pulled.waiting(backendOfPool(pool)).size };
  });
}

const sizeOf = (lanes: readonly Lane[]): number => lanes.reduce((sum, { size }) => sum + size, 0);

const waitingLanes = ({ queue }: EngineView): Lane[] => [...queue.fleet.runnable, ...queue.fleet.unserved];

/** Whether a worker for the lane could be started in the pool, if its devices were empty. */
function couldStart({ catalog }: State, pool: PoolEntry, { need }: Lane): boolean {
  if (need.modelRef === undefined || (need.kind !== undefined && need.kind !== 'worker')) return false;
  const model = catalog.find(need.modelRef);
  if (!model || !hasLabels(pool, need.labels)) return false;
  return pool.report.devices.some(({ ok, totalBytes }) => ok && totalBytes >= model.vramBytes);
}

const isOpen = ({ up, closed, away, paused }: BackendEntry): boolean => up && !closed && !away && !paused;

const mean = (counts: readonly number[]): number =>
  counts.reduce((sum, count) => sum + count, 0) / counts.length;

interface Found {
  readonly kind: Scaling['kind'];
  readonly lanes: readonly Lane[];
  readonly backends: readonly BackendEntry[];
  readonly members: number;
  readonly slotsEach: number;
}

function summary({ state }: EngineView, found: Found, now: number): Scaling {
  const { kind, lanes, backends, members, slotsEach } = found;
  const waiting = sizeOf(lanes);
  const running = backends.reduce((sum, { used }) => sum + used, 0);
  const slots = backends.filter(isOpen).reduce((sum, backend) => sum + usableSlots(backend), 0);
  const predictedWaitMs = longestWait(state, lanes, now);
  const wished = Math.ceil((waiting + running) / slotsEach);
  return { kind, waiting, predictedWaitMs, running, slots, members, wished };
}

/** The longest of the waits that can be predicted; undefined where none can. */
function longestWait(state: State, lanes: readonly Lane[], now: number): number | undefined {
  if (lanes.length === 0) return 0;
  const longest = [...lanes].sort((a, b) => b.size - a.size).slice(0, MAX_PREDICTED_LANES);
  const waits = longest.flatMap(
    (lane) => predictLastStartMs(lane, now, startHints(state, { modelRef: lane.need.modelRef })) ?? [],
  );
  return waits.length === 0 ? undefined : Math.max(...waits);
}
