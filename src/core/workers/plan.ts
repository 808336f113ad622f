/**
 * Decides which workers to start, drain and stop, from the waiting lanes and the last reports of the pools. A decision
 * is only a record; due.ts derives from the records the orders that carry it out.
 *
 * L1  One start serves all jobs that wait for a model: no other is ordered while it is under way.
 * L2  A busy worker is not stopped for another model: it is drained, and stopped when it is idle.
 * L3  Nothing is started, drained or evicted in a pool that does not answer.
 * L4  No more than max_total_workers are there: for another one, a worker of another model is replaced.
 * L5  While the gate of GPU memory is closed, nothing is started on a GPU; idle workers make room until it opens again.
 * L6  In a mode of governance in which no model is called, such as LOCKDOWN, nothing is started, and nothing evicted for it.
 */

import type { WorkerReason } from '../../model/causes.ts';
import { drainWorker, orderWorker, stopWorker } from '../../model/moves.ts';
import { isCpu } from '../../model/policy.ts';
import type { ModelRecord, WorkerRecord } from '../../model/records.ts';
import { workerBackend } from '../ports/pools.ts';
import type { Lane } from '../queue/fleet.ts';
import type { Turn } from '../turn.ts';
import { ceilingText, startsLeft } from './ceiling.ts';
import { type EvictionPlan, type EvictionRequest, planEviction, planReplacement } from './evict.ts';
import { mayOrderWorkers } from './may-order.ts';
import {
  type DeviceRoom,
  type DeviceWorker,
  distanceTo,
  hasLabels,
  isForUse,
  isLeaving,
  roomForWorker,
  Survey,
} from './room.ts';

/** Plans workers for the unserved lanes: for all of them when pools have changed, else for the newly unserved. */
export function plan(turn: Turn): void {
  const { fleet } = turn;
  const { pools } = turn.state;
  if (pools.known.size === 0) return;
  if (fleet.emptied.size > 0) stopEmptied(turn);
  const lanes = pools.changed ? fleet.unserved : fleet.newlyUnserved;
  if (lanes.size > 0 && mayOrderWorkers(turn)) {
    const survey = new Survey(turn);
    for (const lane of inOrder(lanes)) planLane(turn, lane, survey);
  }
  pools.changed = false;
  fleet.newlyUnserved.clear();
}

/** Stops the draining workers that have finished their jobs. */
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

/** The order in which the lanes would be served: interactive first, then by the admission of their next job. */
function inOrder(lanes: Iterable<Lane>): Lane[] {
  const keyed = [...lanes].map((lane) => {
    const interactive = lane.interactive.head();
    return { lane, rank: interactive ? 0 : 1, n: (interactive ?? lane.batch.head())?.ask.n ?? 0 };
  });
  return keyed.sort((a, b) => a.rank - b.rank || a.n - b.n).map(({ lane }) => lane);
}

function planLane(turn: Turn, lane: Lane, survey: Survey): void {
  const { kind } = lane.need;
  const model = modelFor(turn, lane);
  if (!model || (kind !== undefined && kind !== 'worker')) return;
  lane.waitsFor = startFor(turn, lane, model, survey);
}

/** The model that the lane's jobs were admitted for, even if its name stands for another file by now. */
function modelFor({ state: { catalog } }: Turn, { need }: Lane): ModelRecord | undefined {
  const { model: name, modelRef: ref } = need;
  if (ref === undefined) return undefined;
  const found = catalog.find(ref) ?? (name === undefined ? undefined : catalog.find(name));
  return found?.ref === ref ? found : found && { ...found, ref };
}

/** Starts a worker for a lane, or makes room for one; returns what the lane waits for, or why nothing is done. */
function startFor(turn: Turn, lane: Lane, model: ModelRecord, survey: Survey): string | undefined {
  const { state } = turn;
  const failed = state.pools.failedStarts.get(model.ref);
  if (failed && failed.until > turn.now) return `its worker failed to start: ${failed.error.message}`;
  const { starting, running, all } = countWorkers(turn, lane, model.ref);
  if (starting > 0) return 'a worker with this model is starting';
  const another = running > 0 ? anotherFor(turn, lane) : 'anywhere';
  if (another === undefined) return undefined;
  if (all >= turn.settings.pools.maxWorkersPerModel) return undefined;
  // In these pools a new worker would be as unusable as the existing one.
  const useless = unusableIn(turn, lane, model);
  const fitting = survey.for({ labels: lane.need.labels, vramBytes: model.vramBytes });
  const rooms = useless ? fitting.filter(({ pool }) => !useless.has(pool.report.id)) : fitting;
  if (rooms.length === 0) return noDeviceText(useless);
  const gate = closedGate(turn);
  const open = gate || another === 'cpu' ? rooms.filter(({ pool }) => isCpu(pool.report.labels)) : rooms;
  const hasRoom = survey.mostFree >= model.vramBytes;
  const room = hasRoom
    ? roomForWorker(open, model.vramBytes, regionOf(turn, lane), failed?.where)
    : undefined;
  const isAtCeiling = startsLeft(turn) <= 0;
  if (room && !isAtCeiling) {
    start(turn, model, room, { is: running > 0 ? 'load' : 'demand' }, (failed?.tries ?? 0) + 1);
    return 'a worker with this model is starting';
  }
  // Other models are not evicted for a second worker of a model.
  if (running > 0) return undefined;
  if (room) return `${ceilingText(turn)}; ${replaceFor(turn, lane, model, survey)}`;
  if (!gate) return evictFor(turn, lane, model, rooms, 0);
  if (gate.isAnyLeaving) return gate.text;
  return `${gate.text}; ${evictFor(turn, lane, model, rooms, gate.excessBytes)}`;
}

/** The gate of GPU memory while it is closed; undefined while workers may be started. */
interface ClosedGate {
  readonly text: string;
  /** The bytes that must be freed before the gate of memory opens. */
  readonly excessBytes: number;
  /** Workers are on their way out: what they free is not known yet. */
  readonly isAnyLeaving: boolean;
}

function closedGate({ state, settings }: Turn): ClosedGate | undefined {
  const { memory, usedBytes, totalBytes } = state.gates;
  const { gpuMemory } = settings.gates ?? {};
  if (!memory || !gpuMemory) return undefined;
  const percent = Math.floor((usedBytes / totalBytes) * 100);
  return {
    text: `no worker is started while ${percent} % of the GPU memory is used: at ${gpuMemory.openBelow} % starts go on`,
    excessBytes: Math.max(0, usedBytes - (totalBytes * gpuMemory.openBelow) / 100) + 1,
    isAnyLeaving: [...state.workers.values()].some(isLeaving),
  };
}

/** Counts the workers of a model; `running` are only those that can serve the lane. */
function countWorkers(
  turn: Turn,
  lane: Lane,
  modelRef: string,
): { starting: number; running: number; all: number } {
  const counted = { starting: 0, running: 0, all: 0 };
  for (const [id, record] of turn.state.workers.of(modelRef)) {
    const pool = turn.state.pools.get(record.pool);
    // A worker that is kept from the lane must not stop another one from being started for it.
    if (pool && !isForUse(turn.fleet, pool, lane.need.labels)) continue;
    // A worker of a pool that does not answer may never come back: it must not count towards the maximum.
    if (pool?.up) counted.all++;
    if (record.state === 'starting') counted.starting++;
    if (record.state !== 'running' || !isServing(turn, record.pool, id)) continue;
    if (canServe(turn, lane, id, record)) counted.running++;
  }
  return counted;
}

/** Whether a worker has the labels and the context length that the lane needs. */
function canServe(turn: Turn, { need }: Lane, id: string, record: WorkerRecord): boolean {
  const pool = turn.state.pools.get(record.pool);
  if (!pool || !hasLabels(pool, need.labels)) return false;
  return (need.contextTokens ?? 0) <= contextOf(turn, id, record);
}

/** The context length that the worker reports; until then the ordered one. */
const contextOf = (turn: Turn, id: string, { pool, contextLength }: WorkerRecord): number =>
  turn.state.pools.get(pool)?.workers.get(id)?.contextLength ?? contextLength ?? Number.POSITIVE_INFINITY;

/** The pools that have a worker with this model that cannot be used, and why. */
function unusableIn(turn: Turn, { need }: Lane, model: ModelRecord): Map<string, string> | undefined {
  let found: Map<string, string> | undefined;
  for (const [id, record] of turn.state.workers.of(model.ref)) {
    const isShort = (need.contextTokens ?? 0) > contextOf(turn, id, record);
    // It was ordered with the same context length as a new one would be, and still reports less.
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

function noDeviceText(useless: ReadonlyMap<string, string> | undefined): string {
  const [why] = useless?.values() ?? [];
  return why === undefined
    ? 'no pool that can be used has a device for it'
    : `its worker cannot be used: ${why}`;
}

function isServing(turn: Turn, pool: string, id: string): boolean {
  const backend = turn.fleet.backends.get(workerBackend(pool, id));
  return backend?.up === true && !backend.closed;
}

/**
 * Where another worker may be started: anywhere if the lane's jobs would wait longer than scaleUpWaitMs for the existing
 * ones; while the queue is too deep, where `on_depth` says. Undefined: nowhere.
 */
function anotherFor(turn: Turn, lane: Lane): 'anywhere' | 'cpu' | undefined {
  const { onDepth } = (turn.state.gates.depth && turn.settings.gates?.queueDepth) || {};
  if (onDepth === 'scale_up' || waitsTooLong(turn, lane)) return 'anywhere';
  return onDepth === 'cpu' ? 'cpu' : undefined;
}

function waitsTooLong(turn: Turn, lane: Lane): boolean {
  if (lane.serviceMs === undefined) return false;
  const slots = lane.backends.reduce(
    (sum, { up, closed, info }) => sum + (up && !closed ? info.slots : 0),
    0,
  );
  return (lane.size * lane.serviceMs) / Math.max(1, slots) > turn.settings.pools.scaleUpWaitMs;
}

const regionOf = (turn: Turn, lane: Lane): string | undefined =>
  (lane.interactive.head() ?? lane.batch.head())?.ask.spec.region ?? turn.settings.pools.region;

/**
 * Evicts or drains workers of other models on the device where that costs least, so that besides the model so many bytes
 * more come free; returns what the lane waits for.
 */
function evictFor(
  turn: Turn,
  lane: Lane,
  model: ModelRecord,
  rooms: readonly DeviceRoom[],
  excessBytes: number,
): string {
  const request = evictionRequest(turn, lane, model);
  const region = regionOf(turn, lane);
  let best: DeviceEviction | undefined;
  let why = 'there is no room for it';
  for (const room of rooms) {
    const eviction = planEviction(
      request,
      room,
      Math.min(room.device.totalBytes, model.vramBytes + excessBytes),
    );
    if (eviction.is === 'coming') return LEAVES;
    if (eviction.is === 'none') why = eviction.why;
    else if (!best || isCheaper({ eviction, room }, best, region)) best = { eviction, room };
  }
  if (!best) return why;
  evict(turn, best.eviction, model.id);
  best.room.changed();
  return MAKES_ROOM;
}

/** Stops or drains one worker of another model, so that there are fewer than the ceiling allows. */
function replaceFor(turn: Turn, lane: Lane, model: ModelRecord, survey: Survey): string {
  const everywhere = survey.for(ANY_WORKER);
  const eviction = planReplacement(evictionRequest(turn, lane, model), everywhere);
  if (eviction.is === 'coming') return LEAVES;
  if (eviction.is === 'none') return eviction.why;
  evict(turn, eviction, model.id);
  for (const room of everywhere) room.changed();
  return MAKES_ROOM;
}

export const ANY_WORKER = { labels: undefined, vramBytes: 0 } as const;
const LEAVES = 'a worker with another model is on its way out';
const MAKES_ROOM = 'a worker with another model makes room';

type Eviction = Exclude<EvictionPlan, { is: 'none' | 'coming' }>;

/** `by`: what the workers make room for. */
export function evict(turn: Turn, { is, victims }: Eviction, by: string): void {
  const { eviction: policy } = turn.settings.pools;
  for (const victim of victims) {
    turn.state.pools.evictedAt.set(victim.record.modelRef, turn.now);
    if (is === 'evict') stop(turn, victim, { is: 'evicted', policy, for: by });
    else drain(turn, victim, { is: 'drained', for: by });
  }
}

interface DeviceEviction {
  readonly eviction: Eviction;
  readonly room: DeviceRoom;
}

function evictionRequest({ state, settings, now }: Turn, lane: Lane, model: ModelRecord): EvictionRequest {
  const oldest = Math.min(lane.interactive.oldest()?.readyAt ?? now, lane.batch.oldest()?.readyAt ?? now);
  const evictedAt = state.pools.evictedAt.get(model.ref) ?? Number.NEGATIVE_INFINITY;
  return {
    settings: settings.pools,
    now,
    mayDrain: now - oldest >= settings.pools.drainAfterMs,
    wasJustEvicted: now - evictedAt < settings.pools.minResidentMs,
  };
}

/** Evicting costs less than draining, then a near device less than a far one, then few victims, then little use. */
function isCheaper(a: DeviceEviction, b: DeviceEviction, region: string | undefined): boolean {
  if (a.eviction.is !== b.eviction.is) return a.eviction.is === 'evict';
  const nearer = distanceTo(a.room, region) - distanceTo(b.room, region);
  if (nearer !== 0) return nearer < 0;
  const fewer = a.eviction.victims.length - b.eviction.victims.length;
  return fewer === 0 ? a.eviction.loss < b.eviction.loss : fewer < 0;
}

/**
 * Orders a worker for a model on a device. `tries` counts the starts in a row, this one included; `workerPool` is the one
 * that keeps it, if one does.
 */
export function start(
  turn: Turn,
  model: ModelRecord,
  room: DeviceRoom,
  why: WorkerReason,
  tries: number,
  workerPool?: string,
): void {
  const { ref: modelRef, vramBytes, vramGuessed, slots, contextLength } = model;
  const where = { pool: room.pool.report.id, device: room.device.id };
  const fields = {
    ...where,
    modelRef,
    vramBytes,
    vramGuessed,
    slots,
    contextLength,
    ...(workerPool !== undefined && { workerPool }),
  };
  turn.put('worker', newId(turn), orderWorker(fields, turn.now, why, tries), { is: 'start', why });
  room.changed();
}

/** An id that no other brain makes: it contains the owner and the sequence number of its change. */
const newId = (turn: Turn): string =>
  `w-${(turn.state.brain?.owner ?? '').slice(0, 8)}-${(turn.state.seq + 1).toString(36)}`;

type NamedWorker = Pick<DeviceWorker, 'id' | 'record'>;

/** The worker gets no new jobs, and is ordered to stop. */
export function stop(turn: Turn, { id, record }: NamedWorker, why: WorkerReason): void {
  if (record.state === 'stopping') return;
  turn.put('worker', id, stopWorker(record, turn.now, why), { is: 'stopping', why });
  turn.fleet.setClosed(workerBackend(record.pool, id), true);
}

/** The worker gets no new jobs, and finishes those it has. */
export function drain(turn: Turn, { id, record }: NamedWorker, why: WorkerReason): void {
  if (record.state === 'draining' || record.state === 'stopping') return;
  turn.put('worker', id, drainWorker(record, turn.now, why), { is: 'draining', why });
  turn.fleet.setClosed(workerBackend(record.pool, id), true);
}
