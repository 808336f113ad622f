/** Workers ahead of those who will want them, from when jobs have come so far. */
import type { AskRecord, ModelRecord } from '../../model/records.ts';
import type { Submission } from '../events.ts';
import type { StartHints } from '../scheduling/predict.ts';
import { backendOf } from '../state/pools.ts';
import type { State } from '../state/state.ts';
import type { Turn } from '../turn.ts';
import { Demand, type DemandRecord } from './demand.ts';
import { lastUse } from './evict.ts';
import { start } from './plan.ts';
import { type PoolSize, wantedWorkers } from './prewarm.ts';
import { roomiest, Survey } from './room.ts';

/** How often it is looked ahead, and how often what was learned is written down. */
const LOOK_MS = 10_000;
const WRITE_MS = 15 * 60_000;
const TARGET_UTILISATION = 0.7;
/** What a start takes where none was seen yet. */
const START_MS = 20_000;

/** A job for a model of the catalog has come. */
export function noteArrival({ state, now }: Turn, { spec }: Submission): void {
  const { model: name } = spec;
  const model = name === undefined ? undefined : state.catalog.find(name);
  if (model) demandOf(state, model.id).arrived(now);
}

export function noteServed(state: State, name: string | undefined, serviceMs: number): void {
  const model = name === undefined ? undefined : state.catalog.find(name);
  if (model) demandOf(state, model.id).served(serviceMs);
}

function demandOf(state: State, id: string): Demand {
  let demand = state.demands.get(id);
  if (!demand) {
    demand = new Demand();
    state.demands.set(id, demand);
  }
  return demand;
}

/** What an earlier brain has learned. */
export function openDemand({ state }: Turn): void {
  for (const [id, { pattern }] of state.tables.demand.entries()) {
    state.demands.set(id, Demand.fromRecord(pattern as DemandRecord));
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
export function lookAhead(turn: Turn): void {
  const { pools, catalog, demands } = turn.state;
  if (!turn.settings.pools.prewarm || turn.now - pools.lookedAheadAt < LOOK_MS) return;
  pools.lookedAheadAt = turn.now;
  const survey = new Survey(turn.state);
  for (const [id, demand] of demands) {
    const model = catalog.get(id);
    if (!model) demands.delete(id);
    else if (model.state === 'active') warm(turn, model, demand, survey);
  }
  writeDown(turn);
}

function warm(turn: Turn, model: ModelRecord, demand: Demand, survey: Survey): void {
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
export function isExpected(turn: Turn, modelRef: string): boolean {
  if (!turn.settings.pools.prewarm) return false;
  const model = turn.state.catalog.find(modelRef);
  const demand = model && turn.state.demands.get(model.id);
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

function crewOf({ state }: Turn, model: ModelRecord): Workforce {
  let [running, starting, idleSince, isBusy, slots] = [0, 0, 0, false, model.slots ?? 1];
  for (const [id, record] of state.workers.of(model.ref)) {
    if (record.state === 'starting') starting++;
    if (record.state !== 'running' || !state.pools.get(record.pool)?.up) continue;
    running++;
    const backend = state.fleet.backends.get(backendOf(record.pool, id));
    if (backend) slots = backend.info.slots;
    if (backend && backend.used > 0) isBusy = true;
    idleSince = Math.max(idleSince, lastUse({ record, backend }));
  }
  return { running, starting, slots, idleSince: isBusy || running === 0 ? undefined : idleSince };
}

function sizeOf(turn: Turn, model: ModelRecord, demand: Demand, workers: Workforce): PoolSize {
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
function writeDown(turn: Turn): void {
  const { state, now } = turn;
  for (const [id, demand] of state.demands) {
    const written = state.tables.demand.get(id);
    if (written && now - written.at < WRITE_MS) continue;
    turn.put('demand', id, { v: 1, at: now, pattern: demand.toRecord(now) }, 'learned');
  }
}
