/** The load shapes that every system is measured with. */
import { BODY, type Values } from '../kit/bench.ts';
import { Meter } from '../kit/meter.ts';
import { inFlight, now, quantile, sleep } from '../kit/numbers.ts';
import { perItem, steady } from '../kit/steady.ts';
import type { JobBody, System } from './system.ts';

const jobNow = (): JobBody => ({ t: now(), body: BODY });

export interface CycleShape {
  readonly inFlight: number;
  readonly warmMs: number;
  readonly measureMs: number;
}

/** Full cycles: each caller submits a job, waits for its end, then submits the next. */
export async function cycles(system: System, folder: string, shape: CycleShape): Promise<Values> {
  await system.work();
  const { syncs, servers } = system;
  return steady({ ...shape, folder, servers, ...(syncs && { syncs }) }, () => system.cycle(jobNow()));
}

/** Single submits, each with its own durable answer; no job runs meanwhile. */
export function submits(system: System, folder: string, shape: CycleShape): Promise<Values> {
  return steady({ ...shape, folder, servers: system.servers }, () => system.submit(jobNow()));
}

export interface BulkShape {
  readonly jobs: number;
  readonly perCall: number;
}

/** Submits of many jobs per call, one call at a time. */
export async function bulk(system: System, folder: string, { jobs, perCall }: BulkShape): Promise<Values> {
  const call = (): Promise<void> => system.submitMany(Array.from({ length: perCall }, jobNow));
  await inFlight(Math.ceil(jobs / perCall / 4), 1, call);
  const meter = new Meter(folder, system.servers);
  const calls = Math.ceil(jobs / perCall);
  await inFlight(calls, 1, call);
  return perItem(meter.read(), calls * perCall, undefined);
}

export interface DrainShape {
  readonly inFlight: number;
  readonly jobs: number;
}

/** Submits all jobs while none runs, then runs all: the cycle that queues usually publish. */
export async function enqueueThenDrain(system: System, folder: string, shape: DrainShape): Promise<Values> {
  await drainOnce(system, folder, { ...shape, jobs: Math.ceil(shape.jobs / 4) });
  return drainOnce(system, folder, shape);
}

async function drainOnce(system: System, folder: string, shape: DrainShape): Promise<Values> {
  const { promise: allStarted, resolve } = Promise.withResolvers<void>();
  let started = 0;
  system.onStart = () => {
    if (++started === shape.jobs) resolve();
  };
  const syncsBefore = system.syncs?.();
  const meter = new Meter(folder, system.servers);
  await inFlight(shape.jobs, shape.inFlight, () => system.submit(jobNow()));
  const enqueued = meter.read().seconds;
  await system.work();
  await allStarted;
  const reading = meter.read();
  const syncs = syncsBefore === undefined ? undefined : (system.syncs?.() ?? 0) - syncsBefore;
  await system.rest();
  return {
    ...perItem(reading, shape.jobs, syncs),
    enqueuePerSec: shape.jobs / enqueued,
    drainPerSec: shape.jobs / (reading.seconds - enqueued),
  };
}

export interface PaceShape {
  readonly perSec: number;
  readonly seconds: number;
}

/** Submits jobs at a steady pace; measures the time to the submitter's answer and to the start of the handler. */
export async function paced(system: System, folder: string, shape: PaceShape): Promise<Values> {
  const count = shape.perSec * shape.seconds;
  const { promise: allStarted, resolve } = Promise.withResolvers<void>();
  const starts: number[] = [];
  const acks: number[] = [];
  await system.work();
  await inFlight(200, 1, () => system.cycle(jobNow()));
  system.onStart = ({ t }) => {
    if (starts.push(now() - t) === count) resolve();
  };
  const meter = new Meter(folder, system.servers);
  const begin = now();
  const sent: Promise<void>[] = [];
  for (let at = 0; at < count; at++) {
    const wait = begin + (at * 1000) / shape.perSec - now();
    if (wait > 0) await sleep(wait);
    const job = jobNow();
    sent.push(system.submit(job).then(() => void acks.push(now() - job.t)));
  }
  await Promise.all([...sent, allStarted]);
  const { otherCores } = meter.read();
  return {
    startP50Ms: quantile(starts, 0.5),
    startP99Ms: quantile(starts, 0.99),
    ackP50Ms: quantile(acks, 0.5),
    ackP99Ms: quantile(acks, 0.99),
    otherCores,
  };
}
