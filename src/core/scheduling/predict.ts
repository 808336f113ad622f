/** Estimates for waiting callers: the position of a job in its lane, and the time until it starts. */

import type { JobClass } from '../../model/records.ts';
import { type BackendEntry, type Lane, laneOf } from '../queue/fleet.ts';
import type { ServiceTimes } from '../queue/service-times.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { gateOfLane } from './explain-gate.ts';

/** Facts from folders above scheduling/ that the estimate needs. */
export interface StartHints {
  /** How long it takes to start a worker, if the lane has no backend and one can be started. */
  readonly startMs?: number | undefined;
}

/** The ready jobs ahead in the lane; undefined for a job that is not in a lane. */
export function jobPosition(entry: JobEntry): number | undefined {
  return entry.isWaiting ? laneOf(entry)?.positionOf(entry) : undefined;
}

/** The largest share of slots that interactive jobs can take from waiting batch jobs: batch has a guaranteed share. */
const MAX_OVERTAKING = 0.85;
/** Bounds on the competing lanes visited per backend, and on the backends visited: an estimate must stay cheap. */
const MAX_RIVAL_LANES = 16;
const MAX_RIVAL_BACKENDS = 64;

/**
 * The expected milliseconds until the job starts; undefined if no service time was measured yet, or nothing can run the
 * job.
 */
export function predictStartMs(
  entry: JobEntry,
  position: number | undefined,
  now: number,
  hints: StartHints = {},
): number | undefined {
  if (entry.job.state !== 'queued') return entry.job.state === 'claimed' ? 0 : undefined;
  if (entry.parked === 'not_before') return entry.waitsUntil - now;
  const lane = laneOf(entry);
  // When a gate opens depends on other jobs and on what they cost.
  if (position === undefined || !lane || gateOfLane(lane)) return undefined;
  return waitIn(lane, entry, position, now, hints);
}

/** A place in line: all that the wait in a lane depends on. Every waiting job is one. */
interface Place {
  readonly ask: { readonly n: number; readonly spec: { readonly priority: JobClass } };
}

/** The expected milliseconds until the last of the jobs that are in the lane now starts; undefined as above. */
export function predictLastStartMs(lane: Lane, now: number, hints: StartHints = {}): number | undefined {
  if (lane.size === 0) return 0;
  if (gateOfLane(lane)) return undefined;
  const priority = lane.batch.size > 0 ? 'batch' : 'interactive';
  const last: Place = { ask: { n: Number.POSITIVE_INFINITY, spec: { priority } } };
  return waitIn(lane, last, lane.size - 1, now, hints);
}

function waitIn(
  lane: Lane,
  place: Place,
  position: number,
  now: number,
  hints: StartHints,
): number | undefined {
  const capacity = capacityOf(lane, now);
  if (capacity.slots === 0) return coldStart(place, lane, position, hints.startMs);
  if (lane.freeBackends > 0 && position === 0) return 0;
  const work = workAhead(place, lane, position);
  if (!work) return undefined;
  return Math.round(Math.max(typicalWait(place, lane, work, capacity.slots, now), capacity.blockedMs));
}

interface Capacity {
  /** The slots of the backends that can serve the lane. */
  readonly slots: number;
  /** The time until the first of these backends is no longer blocked. */
  readonly blockedMs: number;
}

function capacityOf(lane: Lane, now: number): Capacity {
  let slots = 0;
  let blockedMs = Number.POSITIVE_INFINITY;
  for (const backend of lane.backends) {
    if (!canServe(backend)) continue;
    slots += Math.min(backend.info.slots, backend.slotLimit);
    blockedMs = Math.min(blockedMs, Math.max(0, backend.blockedUntil - now));
  }
  return { slots, blockedMs };
}

const canServe = ({ up, closed, away, paused }: BackendEntry): boolean => up && !closed && !away && !paused;

/** No backend serves the lane yet: a worker must start first, and then runs the jobs ahead one after the other. */
function coldStart(
  place: Place,
  lane: Lane,
  position: number,
  startMs: number | undefined,
): number | undefined {
  if (startMs === undefined) return undefined;
  const work = position === 0 ? undefined : workAhead(place, lane, position);
  return Math.round(startMs + (work?.aheadMs ?? 0));
}

interface WorkAhead {
  /** The total service time of the jobs ahead. */
  readonly aheadMs: number;
  readonly jobs: number;
  /** The service times of the class that occupies most of the slots. */
  readonly running: ServiceTimes;
}

function workAhead(place: Place, lane: Lane, position: number): WorkAhead | undefined {
  const running = busiest(lane);
  if (!running) return undefined;
  const isBatch = place.ask.spec.priority === 'batch';
  const people = isBatch ? Math.min(position, lane.interactive.size) : position;
  const rivals = rivalJobs(place, lane);
  const aheadMs =
    people * meanOf(lane, 'interactive') +
    (position - people) * meanOf(lane, 'batch') +
    rivals * meanOf(lane, place.ask.spec.priority);
  return { aheadMs, jobs: position + rivals, running };
}

/** The mean service time of a class; that of the other class if this one was not measured yet. */
function meanOf(lane: Lane, jobClass: 'interactive' | 'batch'): number {
  const other = jobClass === 'batch' ? lane.times.interactive : lane.times.batch;
  return lane.times[jobClass].meanMs ?? other.meanMs ?? 0;
}

/** The service times of the class that has used the most slot time. */
function busiest({ times }: Lane): ServiceTimes | undefined {
  const people = times.interactive.count * (times.interactive.meanMs ?? 0);
  const batch = times.batch.count * (times.batch.meanMs ?? 0);
  if (times.interactive.count + times.batch.count === 0) return undefined;
  return people > batch ? times.interactive : times.batch;
}

/** The jobs of other lanes that go first on this lane's backends. A lane's jobs are spread over all its backends. */
function rivalJobs(place: Place, lane: Lane): number {
  const { backends } = lane;
  const visited = Math.min(backends.length, MAX_RIVAL_BACKENDS);
  let jobs = 0;
  for (let n = 0; n < visited; n++) {
    const backend = backends[n]!;
    if (!canServe(backend)) continue;
    const seen = Math.min(backend.lanes.length, MAX_RIVAL_LANES);
    for (let at = 0; at < seen; at++) {
      const rival = backend.lanes[at]!;
      if (rival !== lane && rival.size > 0) jobs += jobsBefore(place, rival) / rival.backends.length;
    }
  }
  return visited === 0 ? 0 : (jobs * backends.length) / visited;
}

/** Lanes are ordered by class, then by the admission of their next job. */
function jobsBefore({ ask }: Place, rival: Lane): number {
  const sameClass = rival.queueOf(ask.spec.priority).cameBefore(ask.n);
  return ask.spec.priority === 'batch' ? sameClass + rival.interactive.size : sameClass;
}

/**
 * The median wait: the slots share the remaining work of a running job and the work ahead. The median of skewed times is
 * below the mean, the more so the fewer jobs average it out.
 */
function typicalWait(place: Place, lane: Lane, work: WorkAhead, slots: number, now: number): number {
  const mean = (leftMs(lane, work.running, now) + work.aheadMs) / slots;
  const typical = mean / Math.sqrt(1 + work.running.spread / (work.jobs + 1));
  return place.ask.spec.priority === 'interactive' ? typical : typical / (1 - overtaking(lane, slots, now));
}

/** The mean remaining time of the running jobs, by their elapsed time where that is known. */
function leftMs(lane: Lane, usual: ServiceTimes, now: number): number {
  let jobs = 0;
  let sum = 0;
  for (const backend of lane.backends) {
    if (!canServe(backend)) continue;
    jobs += backend.used;
    sum += leftOn(backend, lane, usual.residualMs, now);
  }
  return jobs === 0 ? usual.residualMs : sum / jobs;
}

/** The remaining times of the jobs that run on a backend, added up; `residualMs` for each whose start is not known. */
export function leftOn(backend: BackendEntry, lane: Lane, residualMs: number, now: number): number {
  let unknown = backend.used;
  let sum = 0;
  for (const jobClass of CLASSES) {
    const known = backend.running.jobs(jobClass);
    if (known === 0 || lane.times[jobClass].count === 0) continue;
    unknown -= known;
    sum += known * lane.times[jobClass].leftMs(backend.running.elapsedMs(jobClass, now));
  }
  return sum + Math.max(0, unknown) * residualMs;
}

const CLASSES = ['interactive', 'batch'] as const;

/** The share of the slots that goes to interactive jobs arriving while a batch job waits. */
function overtaking(lane: Lane, slots: number, now: number): number {
  const share = (lane.interactive.rate.perMs(now) * meanOf(lane, 'interactive')) / slots;
  return Math.min(MAX_OVERTAKING, share);
}
