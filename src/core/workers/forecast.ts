/** Starts workers ahead of expected demand, and keeps idle ones that will be needed. Demand is learned from arrivals. */

import type { AskRecord, ModelRecord } from '../../model/records.ts';
import { workerBackend } from '../ports/pools.ts';
import type { StartHints } from '../scheduling/predict.ts';
import type { State } from '../state/state.ts';
import { startsLeft } from './ceiling.ts';
import { Demand, type DemandPattern } from './demand.ts';
import { lastUse } from './evict.ts';
import { mayOrderWorkers } from './may-order.ts';
import { start } from './plan.ts';
import { type PoolSize, wantedWorkers } from './prewarm.ts';
import { roomForWorker, Survey } from './room.ts';
import type { WorkerTurn } from './turn.ts';

const FORECAST_INTERVAL_MS = 10_000;
/** How often a learned pattern is persisted. */
const WRITE_INTERVAL_MS = 15 * 60_000;
const TARGET_UTILISATION = 0.7;
/** The assumed time of a start until one was measured. */
const DEFAULT_START_MS = 20_000;

/** A job was admitted; counted if its model is in the catalog. */
export function noteArrival(turn: WorkerTurn, model: string | undefined): void {
  demandOf(turn, model)?.arrived(turn.now);
}

/** A try of a job has ended. */
export function noteServed(turn: WorkerTurn, model: string | undefined, serviceMs: number): void {
  demandOf(turn, model)?.served(serviceMs);
}

function demandOf({ state, demands }: WorkerTurn, name: string | undefined): Demand | undefined {
  const model = name === undefined ? undefined : state.catalog.find(name);
  if (!model) return undefined;
  let demand = demands.get(model.id);
  if (!demand) {
    demand = new Demand();
    demands.set(model.id, demand);
  }
  return demand;
}

/** Loads the patterns that earlier brains have learned. */
export function loadDemand({ state, demands }: WorkerTurn): void {
  for (const [id, { pattern }] of state.tables.demand.entries()) {
    demands.set(id, Demand.fromRecord(pattern as DemandPattern));
  }
}

/** How long the start of a worker takes, for a model of the catalog while some pool is up. */
export function startHints(state: State, { modelRef }: Pick<AskRecord, 'modelRef'>): StartHints {
  if (modelRef === undefined || !state.pools.isAnyUp()) return NO_HINTS;
  return { startMs: startMsOf(state, modelRef) };
}

const NO_HINTS: StartHints = {};

const startMsOf = (state: State, modelRef: string): number =>
  state.pools.startMs.get(modelRef) ?? DEFAULT_START_MS;

/** At a tick: starts the workers that are expected to be needed, where they fit without an eviction. */
export function lookAhead(turn: WorkerTurn): void {
  const { demands } = turn;
  const { pools, catalog } = turn.state;
  if (
    !turn.settings.pools.prewarm ||
    turn.state.gates.memory ||
    turn.now - pools.forecastAt < FORECAST_INTERVAL_MS
  )
    return;
  pools.forecastAt = turn.now;
  const survey = new Survey(turn);
  for (const [id, demand] of demands) {
    const model = catalog.get(id);
    if (!model) demands.delete(id);
    else if (model.state === 'active') prewarm(turn, model, demand, survey);
  }
  savePatterns(turn);
}

function prewarm(turn: WorkerTurn, model: ModelRecord, demand: Demand, survey: Survey): void {
  const { state, settings } = turn;
  if (!mayOrderWorkers(turn)) return;
  const failed = state.pools.failedStarts.get(model.ref);
  if (failed && failed.until > turn.now) return;
  const workers = workersOf(turn, model);
  if (workers.starting > 0) return;
  const { workers: wanted, reason } = sizeOf(turn, model, demand, workers);
  if (wanted <= workers.running || startsLeft(turn) <= 0) return;
  const rooms = survey.for({ labels: undefined, vramBytes: model.vramBytes });
  const room = roomForWorker(rooms, model.vramBytes, settings.pools.region);
  if (room) start(turn, model, room, { is: 'prewarm', because: reason }, (failed?.tries ?? 0) + 1);
}

/** Whether an idle worker of this model should be kept, because enough demand is expected. */
export function isExpected(turn: WorkerTurn, modelRef: string): boolean {
  if (!turn.settings.pools.prewarm) return false;
  const model = turn.state.catalog.find(modelRef);
  const demand = model && turn.demands.get(model.id);
  if (!model || !demand) return false;
  const workers = workersOf(turn, model);
  return sizeOf(turn, model, demand, workers).workers >= workers.running;
}

interface ModelWorkers {
  readonly running: number;
  readonly starting: number;
  readonly slots: number;
  /** Since when all of them are idle; undefined while one is busy, or none runs. */
  readonly idleSince: number | undefined;
}

function workersOf({ state, fleet }: WorkerTurn, model: ModelRecord): ModelWorkers {
  let [running, starting, idleSince, isBusy, slots] = [0, 0, 0, false, model.slots ?? 1];
  for (const [id, record] of state.workers.of(model.ref)) {
    if (record.state === 'starting') starting++;
    if (record.state !== 'running' || !state.pools.get(record.pool)?.up) continue;
    running++;
    const backend = fleet.backends.get(workerBackend(record.pool, id));
    if (backend) slots = backend.info.slots;
    if (backend && backend.used > 0) isBusy = true;
    idleSince = Math.max(idleSince, lastUse({ record, backend }));
  }
  return { running, starting, slots, idleSince: isBusy || running === 0 ? undefined : idleSince };
}

function sizeOf(turn: WorkerTurn, model: ModelRecord, demand: Demand, workers: ModelWorkers): PoolSize {
  const { maxWorkersPerModel, idleUnloadMs } = turn.settings.pools;
  const need = {
    demand,
    slotsPerWorker: workers.slots,
    startMs: startMsOf(turn.state, model.ref),
    targetUtilisation: TARGET_UTILISATION,
    min: 0,
    max: maxWorkersPerModel,
    current: workers.running,
    idleMs: idleUnloadMs,
    idleSince: workers.idleSince,
  };
  return wantedWorkers(need, turn.now);
}

/** Persists the patterns: they take days to learn. */
function savePatterns(turn: WorkerTurn): void {
  const { state, demands, now } = turn;
  for (const [id, demand] of demands) {
    const written = state.tables.demand.get(id);
    if (written && now - written.at < WRITE_INTERVAL_MS) continue;
    turn.put('demand', id, { v: 1, at: now, pattern: demand.toRecord(now) }, 'learned');
  }
}
