/** Workers ahead of those who will want them, from when jobs have come so far. */

import type { AskRecord, ModelRecord } from '../../model/records.ts';
import { workerBackend } from '../ports/pools.ts';
import type { StartHints } from '../scheduling/predict.ts';
import type { State } from '../state/state.ts';
import { Demand, type DemandPattern } from './demand.ts';
import { lastUse } from './evict.ts';
import { start } from './plan.ts';
import { type PoolSize, wantedWorkers } from './prewarm.ts';
import { roomiest, Survey } from './room.ts';
import type { WorkerTurn } from './turn.ts';

/** How often it is looked ahead, and how often what was learned is written down. */
const FORECAST_INTERVAL_MS = 10_000;
const WRITE_MS = 15 * 60_000;
const TARGET_UTILISATION = 0.7;
/** What a start takes where none was seen yet. */
const START_MS = 20_000;

/** A job for a model of the catalog has come. */
export function noteArrival(turn: WorkerTurn, model: string | undefined): void {
  demandOf(turn, model)?.arrived(turn.now);
}

/** A try of such a job has ended. */
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

/** What an earlier brain has learned. */
export function openDemand({ state, demands }: WorkerTurn): void {
  for (const [id, { pattern }] of state.tables.demand.entries()) {
    demands.set(id, Demand.fromRecord(pattern as DemandPattern));
  }
}

/** Where a worker has to be started first, and somebody could, how long that takes. */
export function startHints(state: State, { modelRef }: Pick<AskRecord, 'modelRef'>): StartHints {
  if (modelRef === undefined || !state.pools.someUp()) return NO_HINTS;
  return { startMs: startMsOf(state, modelRef) };
}

const NO_HINTS: StartHints = {};

const startMsOf = (state: State, modelRef: string): number => state.pools.startMs.get(modelRef) ?? START_MS;

/** At a tick: starts what will be wanted, where there is room without sending anybody away. */
export function lookAhead(turn: WorkerTurn): void {
  const { demands } = turn;
  const { pools, catalog } = turn.state;
  if (!turn.settings.pools.prewarm || turn.now - pools.lookedAheadAt < FORECAST_INTERVAL_MS) return;
  pools.lookedAheadAt = turn.now;
  const survey = new Survey(turn);
  for (const [id, demand] of demands) {
    const model = catalog.get(id);
    if (!model) demands.delete(id);
    else if (model.state === 'active') warm(turn, model, demand, survey);
  }
  writeDown(turn);
}

function warm(turn: WorkerTurn, model: ModelRecord, demand: Demand, survey: Survey): void {
  const { state, settings } = turn;
  const failed = state.pools.failedStarts.get(model.ref);
  if (failed && failed.until > turn.now) return;
  const workers = crewOf(turn, model);
  if (workers.starting > 0) return;
  const { workers: wanted, reason } = sizeOf(turn, model, demand, workers);
  if (wanted <= workers.running) return;
  const places = survey.for({ labels: undefined, vramBytes: model.vramBytes });
  const place = roomiest(places, model.vramBytes, settings.pools.region);
  if (place) start(turn, model, place, { is: 'prewarm', because: reason }, 1);
}

/** Whether an idle worker of this model should stay, though it has been idle for long. */
export function isExpected(turn: WorkerTurn, modelRef: string): boolean {
  if (!turn.settings.pools.prewarm) return false;
  const model = turn.state.catalog.find(modelRef);
  const demand = model && turn.demands.get(model.id);
  if (!model || !demand) return false;
  const workers = crewOf(turn, model);
  return sizeOf(turn, model, demand, workers).workers >= workers.running;
}

interface Workforce {
  readonly running: number;
  readonly starting: number;
  readonly slots: number;
  /** Since when none of them has had anything to do. */
  readonly idleSince: number | undefined;
}

function crewOf({ state, fleet }: WorkerTurn, model: ModelRecord): Workforce {
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

function sizeOf(turn: WorkerTurn, model: ModelRecord, demand: Demand, workers: Workforce): PoolSize {
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

/** A pattern of days is worth keeping over a restart. */
function writeDown(turn: WorkerTurn): void {
  const { state, demands, now } = turn;
  for (const [id, demand] of demands) {
    const written = state.tables.demand.get(id);
    if (written && now - written.at < WRITE_MS) continue;
    turn.put('demand', id, { v: 1, at: now, pattern: demand.toRecord(now) }, 'learned');
  }
}
