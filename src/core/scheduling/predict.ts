/** Estimates told to people who wait. */

import { type BackendEntry, type Lane, laneOf } from '../queue/fleet.ts';
import type { ServiceTimes } from '../queue/service-times.ts';
import type { JobEntry } from '../state/job-entry.ts';

/** What only the caller can know. */
export interface StartHints {
  /** How long it takes to bring up a backend where there is none. */
  readonly startMs?: number | undefined;
}

/** Ready jobs ahead in the lane; undefined for a job that does not wait in one. */
export function jobPosition(entry: JobEntry): number | undefined {
  return entry.queuePos >= 0 ? laneOf(entry)?.positionOf(entry) : undefined;
}

/** However many people come, batch work gets a share. */
const MOST_OVERTAKING = 0.85;
/** Competing lanes are looked at up to this many, at up to so many backends: an estimate need not be dear. */
const RIVALS_SEEN = 16;
const RIVALRY_SEEN = 64;

/**
 * About how many milliseconds until the job starts. Undefined where nothing was measured yet or nothing can
 * run it.
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
  if (position === undefined || !lane) return undefined;
  const crew = crewOf(lane, now);
  if (crew.slots === 0) return coldStart(entry, lane, position, hints.startMs);
  if (lane.freeBackends > 0 && position === 0) return 0;
  const work = workAhead(entry, lane, position);
  if (!work) return undefined;
  return Math.round(Math.max(typicalWait(entry, lane, work, crew.slots, now), crew.blockedMs));
}

interface Crew {
  readonly slots: number;
  /** Nothing is offered to any of them for so long. */
  readonly blockedMs: number;
}

function crewOf(lane: Lane, now: number): Crew {
  let slots = 0;
  let blockedMs = Number.POSITIVE_INFINITY;
  for (const backend of lane.backends) {
    if (!canServe(backend)) continue;
    slots += backend.info.slots;
    blockedMs = Math.min(blockedMs, Math.max(0, backend.blockedUntil - now));
  }
  return { slots, blockedMs };
}

const canServe = ({ up, closed, away }: BackendEntry): boolean => up && !closed && !away;

/** Nobody is there yet: the first one has to be brought up, and then takes those ahead one after the other. */
function coldStart(
  entry: JobEntry,
  lane: Lane,
  position: number,
  startMs: number | undefined,
): number | undefined {
  if (startMs === undefined) return undefined;
  const work = position === 0 ? undefined : workAhead(entry, lane, position);
  return Math.round(startMs + (work?.aheadMs ?? 0));
}

interface Work {
  /** Service time of the jobs ahead. */
  readonly aheadMs: number;
  readonly jobs: number;
  /** Of the class that fills most of the slots. */
  readonly running: ServiceTimes;
}

function workAhead(entry: JobEntry, lane: Lane, position: number): Work | undefined {
  const running = busiest(lane);
  if (!running) return undefined;
  const isBatch = entry.ask.spec.priority === 'batch';
  const people = isBatch ? Math.min(position, lane.interactive.size) : position;
  const rivals = rivalJobs(entry, lane);
  const aheadMs =
    people * meanOf(lane, 'interactive') +
    (position - people) * meanOf(lane, 'batch') +
    rivals * meanOf(lane, entry.ask.spec.priority);
  return { aheadMs, jobs: position + rivals, running };
}

/** Where a class was not measured yet, the other one is all there is to go by. */
function meanOf(lane: Lane, jobClass: 'interactive' | 'batch'): number {
  const other = jobClass === 'batch' ? lane.times.interactive : lane.times.batch;
  return lane.times[jobClass].meanMs ?? other.meanMs ?? 0;
}

/** The class whose jobs are met in the slots more often: it came more often, or it stays longer. */
function busiest({ times }: Lane): ServiceTimes | undefined {
  const people = times.interactive.count * (times.interactive.meanMs ?? 0);
  const batch = times.batch.count * (times.batch.meanMs ?? 0);
  if (times.interactive.count + times.batch.count === 0) return undefined;
  return people > batch ? times.interactive : times.batch;
}

/** Jobs of other lanes that go first at the same backends: each lane spreads its own over all its backends. */
function rivalJobs(entry: JobEntry, lane: Lane): number {
  const { backends } = lane;
  const visited = Math.min(backends.length, RIVALRY_SEEN);
  let jobs = 0;
  for (let n = 0; n < visited; n++) {
    const backend = backends[n]!;
    if (!canServe(backend)) continue;
    const seen = Math.min(backend.lanes.length, RIVALS_SEEN);
    for (let at = 0; at < seen; at++) {
      const rival = backend.lanes[at]!;
      if (rival !== lane && rival.size > 0) jobs += jobsBefore(entry, rival) / rival.backends.length;
    }
  }
  return visited === 0 ? 0 : (jobs * backends.length) / visited;
}

/** Lanes take turns by class and then by who came first. */
function jobsBefore({ ask }: JobEntry, rival: Lane): number {
  const sameClass = rival.queueOf(ask.spec.priority).cameBefore(ask.n);
  return ask.spec.priority === 'batch' ? sameClass + rival.interactive.size : sameClass;
}

/**
 * The work ahead is shared by the slots, and the first of those that run has to end. The middle of what may
 * happen lies below the mean, the more so the fewer jobs there are to even it out.
 */
function typicalWait(entry: JobEntry, lane: Lane, work: Work, slots: number, now: number): number {
  const mean = (leftMs(lane, work.running, now) + work.aheadMs) / slots;
  const typical = mean / Math.sqrt(1 + work.running.spread / (work.jobs + 1));
  return entry.ask.spec.priority === 'interactive' ? typical : typical / (1 - overtaking(lane, slots, now));
}

/** What a job that runs has still to do, on average: by how long it has been running, where that is known. */
function leftMs(lane: Lane, usual: ServiceTimes, now: number): number {
  let jobs = 0;
  let sum = 0;
  for (const backend of lane.backends) {
    if (!canServe(backend)) continue;
    let unknown = backend.used;
    for (const jobClass of CLASSES) {
      const known = backend.running.jobs(jobClass);
      if (known === 0 || lane.times[jobClass].count === 0) continue;
      unknown -= known;
      sum += known * lane.times[jobClass].leftMs(backend.running.elapsedMs(jobClass, now));
    }
    jobs += backend.used;
    sum += Math.max(0, unknown) * usual.residualMs;
  }
  return jobs === 0 ? usual.residualMs : sum / jobs;
}

const CLASSES = ['interactive', 'batch'] as const;

/** Which share of the slots goes to people who come while batch work waits. */
function overtaking(lane: Lane, slots: number, now: number): number {
  const share = (lane.interactive.rate.perMs(now) * meanOf(lane, 'interactive')) / slots;
  return Math.min(MOST_OVERTAKING, share);
}
