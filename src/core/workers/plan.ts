/**
 * Which workers should be started, drained and stopped: decided from the lanes that wait and the pools as last
 * heard of. What is decided is a record; carrying it out is due from the record alone.
 *
 * L1  One start serves all who wait for a model: none is ordered while one is under way.
 * L2  A worker with something to do is never stopped: it is drained, and stopped when it is idle.
 * L3  Nothing is started, drained or evicted in a pool that has not answered of late.
 */

import type { WorkerReason } from '../../model/causes.ts';
import { drainWorker, orderWorker, stopWorker } from '../../model/moves.ts';
import type { ModelRecord, WorkerRecord } from '../../model/records.ts';
import { workerBackend } from '../ports/pools.ts';
import type { Lane } from '../queue/fleet.ts';
import type { Turn } from '../turn.ts';
import { type Asked, type Making, makeRoom } from './evict.ts';
import { distanceTo, hasLabels, type Place, type Resident, roomiest, Survey } from './room.ts';

/** Looks at the lanes that nobody can serve: at all of them when pools have changed, else at the new ones. */
export function plan(turn: Turn): void {
  const { fleet } = turn;
  const { pools } = turn.state;
  if (pools.known.size === 0) return;
  if (fleet.emptied.size > 0) stopEmptied(turn);
  const lanes = pools.changed ? fleet.unserved : fleet.newlyUnserved;
  if (lanes.size > 0 && !turn.state.full && !turn.state.paused) {
    const survey = new Survey(turn);
    for (const lane of inOrder(lanes)) provide(turn, lane, survey);
  }
  pools.changed = false;
  fleet.newlyUnserved.clear();
}

/** Those that were drained have finished. */
function stopEmptied(turn: Turn): void {
  const { fleet } = turn;
  const { workers } = turn.state;
  for (const name of fleet.emptied) {
    const id = name.slice(name.indexOf('/') + 1);
    const record = workers.get(id);
    if (record?.state === 'draining') stop(turn, { id, record }, record.why);
  }
  fleet.emptied.clear();
}

/** Class before class, then the job that came first: as they would be served. */
function inOrder(lanes: Iterable<Lane>): Lane[] {
  const keyed = [...lanes].map((lane) => {
    const interactive = lane.interactive.head();
    return { lane, rank: interactive ? 0 : 1, n: (interactive ?? lane.batch.head())?.ask.n ?? 0 };
  });
  return keyed.sort((a, b) => a.rank - b.rank || a.n - b.n).map(({ lane }) => lane);
}

function provide(turn: Turn, lane: Lane, survey: Survey): void {
  const { kind } = lane.need;
  const model = modelFor(turn, lane);
  if (!model || (kind !== undefined && kind !== 'worker')) return;
  lane.waitsFor = startFor(turn, lane, model, survey);
}

/** What its jobs were admitted for, also where the name of their model stands for another file by now. */
function modelFor({ state: { catalog } }: Turn, { need }: Lane): ModelRecord | undefined {
  const { model: name, modelRef: ref } = need;
  if (ref === undefined) return undefined;
  const found = catalog.find(ref) ?? (name === undefined ? undefined : catalog.find(name));
  return found?.ref === ref ? found : found && { ...found, ref };
}

/** Starts a worker for a lane, or makes room for one; returns why not, or what is waited for. */
function startFor(turn: Turn, lane: Lane, model: ModelRecord, survey: Survey): string | undefined {
  const { state } = turn;
  const failed = state.pools.failedStarts.get(model.ref);
  if (failed && failed.until > turn.now) return `its worker failed to start: ${failed.error.message}`;
  const { starting, running, all } = count(turn, lane, model.ref);
  if (starting > 0) return 'a worker with this model is starting';
  if (running > 0 && !isWorthAnother(turn, lane)) return undefined;
  if (all >= turn.settings.pools.maxWorkersPerModel) return undefined;
  // Another one there would be of no more use than the one that is.
  const useless = unusableIn(turn, lane, model);
  const fitting = survey.for({ labels: lane.need.labels, vramBytes: model.vramBytes });
  const places = useless ? fitting.filter(({ pool }) => !useless.has(pool.report.id)) : fitting;
  if (places.length === 0) return nowhere(useless);
  const hasRoom = survey.mostFree >= model.vramBytes;
  const place = hasRoom ? roomiest(places, model.vramBytes, regionOf(turn, lane), failed?.where) : undefined;
  if (place) {
    start(turn, model, place, { is: running > 0 ? 'load' : 'demand' }, (failed?.tries ?? 0) + 1);
    return 'a worker with this model is starting';
  }
  // Others do not make room for more of what is there already.
  return running > 0 ? undefined : clear(turn, lane, model, places);
}

/** The workers of a model; of those that run, only such as are of use to the lane. */
function count(turn: Turn, lane: Lane, modelRef: string): { starting: number; running: number; all: number } {
  const counted = { starting: 0, running: 0, all: 0 };
  for (const [id, record] of turn.state.workers.of(modelRef)) {
    // One whose pool is silent may never come back: it must not stand in the way of others.
    if (turn.state.pools.get(record.pool)?.up) counted.all++;
    if (record.state === 'starting') counted.starting++;
    if (record.state !== 'running' || !isServing(turn, record.pool, id)) continue;
    if (isOfUse(turn, lane, id, record)) counted.running++;
  }
  return counted;
}

/** Whether it has the labels and the context that the jobs of a lane ask for. */
function isOfUse(turn: Turn, { need }: Lane, id: string, record: WorkerRecord): boolean {
  const pool = turn.state.pools.get(record.pool);
  if (!pool || !hasLabels(pool, need.labels)) return false;
  return (need.contextTokens ?? 0) <= contextOf(turn, id, record);
}

/** As it says itself; until then as it was ordered. */
const contextOf = (turn: Turn, id: string, { pool, contextLength }: WorkerRecord): number =>
  turn.state.pools.get(pool)?.workers.get(id)?.contextLength ?? contextLength ?? Number.POSITIVE_INFINITY;

/** The pools whose worker with this model is there and cannot be used, and why. */
function unusableIn(turn: Turn, { need }: Lane, model: ModelRecord): Map<string, string> | undefined {
  let found: Map<string, string> | undefined;
  for (const [id, record] of turn.state.workers.of(model.ref)) {
    const isShort = (need.contextTokens ?? 0) > contextOf(turn, id, record);
    // It was ordered as one would be now, and has less than it was ordered with.
    const isTooShort = isShort && record.contextLength === model.contextLength;
    const why =
      turn.state.pools.get(record.pool)?.workers.get(id)?.unusable ?? (isTooShort ? TOO_SHORT : undefined);
    if (why === undefined) continue;
    found ??= new Map();
    found.set(record.pool, why);
  }
  return found;
}

const TOO_SHORT = 'its context is shorter than the catalog says';

function nowhere(useless: ReadonlyMap<string, string> | undefined): string {
  const [why] = useless?.values() ?? [];
  return why === undefined
    ? 'no pool that can be used has a device for it'
    : `its worker cannot be used: ${why}`;
}

function isServing(turn: Turn, pool: string, id: string): boolean {
  const backend = turn.fleet.backends.get(workerBackend(pool, id));
  return backend?.up === true && !backend.closed;
}

/** Whether those who wait would wait long for the workers that there are. */
function isWorthAnother(turn: Turn, lane: Lane): boolean {
  if (lane.serviceMs === undefined) return false;
  const slots = lane.backends.reduce(
    (sum, { up, closed, info }) => sum + (up && !closed ? info.slots : 0),
    0,
  );
  return (lane.size * lane.serviceMs) / Math.max(1, slots) > turn.settings.pools.scaleUpWaitMs;
}

const regionOf = (turn: Turn, lane: Lane): string | undefined =>
  (lane.interactive.head() ?? lane.batch.head())?.ask.spec.region ?? turn.settings.pools.region;

/** Lets others go, on the device where that costs least. */
function clear(turn: Turn, lane: Lane, model: ModelRecord, places: readonly Place[]): string {
  const asked = askedFor(turn, lane, model);
  const region = regionOf(turn, lane);
  let best: Cleared | undefined;
  let why = 'there is no room for it';
  for (const place of places) {
    const making = makeRoom(asked, place, model.vramBytes);
    if (making.is === 'coming') return 'a worker with another model is on its way out';
    if (making.is === 'none') why = making.why;
    else if (!best || isCheaper({ making, place }, best, region)) best = { making, place };
  }
  if (!best) return why;
  const { eviction } = asked.settings;
  for (const victim of best.making.victims) {
    turn.state.pools.evictedAt.set(victim.record.modelRef, turn.now);
    if (best.making.is === 'evict') stop(turn, victim, { is: 'evicted', policy: eviction, for: model.id });
    else drain(turn, victim, { is: 'drained', for: model.id });
  }
  best.place.changed();
  return 'a worker with another model makes room';
}

interface Cleared {
  readonly making: Exclude<Making, { is: 'none' | 'coming' }>;
  readonly place: Place;
}

function askedFor({ state, settings, now }: Turn, lane: Lane, model: ModelRecord): Asked {
  const oldest = Math.min(lane.interactive.oldest()?.readyAt ?? now, lane.batch.oldest()?.readyAt ?? now);
  const evictedAt = state.pools.evictedAt.get(model.ref) ?? Number.NEGATIVE_INFINITY;
  return {
    settings: settings.pools,
    now,
    mayDrain: now - oldest >= settings.pools.drainAfterMs,
    isBack: now - evictedAt < settings.pools.minResidentMs,
  };
}

/** Evicting before draining, near before far, few before many, and then whoever is wanted least. */
function isCheaper(a: Cleared, b: Cleared, region: string | undefined): boolean {
  if (a.making.is !== b.making.is) return a.making.is === 'evict';
  const nearer = distanceTo(a.place, region) - distanceTo(b.place, region);
  if (nearer !== 0) return nearer < 0;
  const fewer = a.making.victims.length - b.making.victims.length;
  return fewer === 0 ? a.making.loss < b.making.loss : fewer < 0;
}

export function start(turn: Turn, model: ModelRecord, place: Place, why: WorkerReason, tries: number): void {
  const { ref: modelRef, vramBytes, vramGuessed, slots, contextLength } = model;
  const where = { pool: place.pool.report.id, device: place.device.id };
  const fields = { ...where, modelRef, vramBytes, vramGuessed, slots, contextLength };
  turn.put('worker', newId(turn), orderWorker(fields, turn.now, why, tries), { is: 'start', why });
  place.changed();
}

/** No other brain makes the same: its owner is in it, and the place in the order of everything. */
const newId = (turn: Turn): string =>
  `w-${(turn.state.brain?.owner ?? '').slice(0, 8)}-${(turn.state.seq + 1).toString(36)}`;

type NamedWorker = Pick<Resident, 'id' | 'record'>;

/** From then on it gets nothing new, and is ordered to go. */
export function stop(turn: Turn, { id, record }: NamedWorker, why: WorkerReason): void {
  if (record.state === 'stopping') return;
  turn.put('worker', id, stopWorker(record, turn.now, why), { is: 'stopping', why });
  turn.fleet.setClosed(workerBackend(record.pool, id), true);
}

/** From then on it gets nothing new, and finishes what it has. */
export function drain(turn: Turn, { id, record }: NamedWorker, why: WorkerReason): void {
  if (record.state === 'draining' || record.state === 'stopping') return;
  turn.put('worker', id, drainWorker(record, turn.now, why), { is: 'draining', why });
  turn.fleet.setClosed(workerBackend(record.pool, id), true);
}
