/**
 * The ready jobs in their lanes, and the fleet of backends that can run them. The queue follows the state and decides
 * nothing.
 *
 * Q1  A job is in a lane exactly while the state reports it as ready.
 * Q2  The used slots of a backend are the attempts open on it, without those that its executor no longer runs.
 */
import type { LimitSpec, SpentRecord } from '../../model/limit-records.ts';
import type { AttemptRecord, JobClass } from '../../model/records.ts';
import { usesSlot } from '../../model/states.ts';
import type { Gate } from '../limits/gate.ts';
import { Gates, isBroad } from '../limits/gates.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { StateFollower } from '../state/state.ts';
import { Fleet, laneOf } from './fleet.ts';
import { GateList, GateLists } from './gate-lists.ts';
import { laneKey } from './lane.ts';
import { StartRate } from './start-rate.ts';

/** Jobs put back into their lanes in one step, some milliseconds of work. */
const LET_THROUGH_PER_STEP = 2000;

const NO_GATES: readonly Gate[] = [];

/** The gates of an open attempt. The cast is safe: only Queue writes arrays there. */
const gatesOf = ({ quota }: JobEntry): readonly Gate[] =>
  Array.isArray(quota) ? (quota as readonly Gate[]) : NO_GATES;

/** A job that comes later waits behind those that wait already. */
export const isFull = (gate: Gate): boolean => gate.room <= 0 || gate.waiting > 0;

/** Whether the gate has let this job through, and so keeps room for it. */
export const hasLetThrough = (gate: Gate, { quota }: JobEntry): boolean =>
  quota instanceof GateList && quota.gate === gate;

/** The model that an attempt of the job is for. */
export const modelOf = ({ ask, job, open }: JobEntry): string | undefined =>
  open?.model ?? job.place?.model ?? ask.spec.model;

export class Queue implements StateFollower {
  readonly fleet = new Fleet();
  /** Ready jobs by class, over all lanes. */
  readonly waiting: Record<JobClass, { jobs: number; bytes: number }> = {
    interactive: { jobs: 0, bytes: 0 },
    batch: { jobs: 0, bytes: 0 },
  };
  readonly startRate = new StartRate();
  /** No job is claimed before this instant; set by attempts/expiry.ts. */
  claimsFrom = 0;
  readonly gates = new Gates();
  readonly #lists = new GateLists();
  /** More jobs are to be parked or let through than one step does: the next tick goes on. */
  isUnfinished = false;

  ready(entry: JobEntry, readyAt: number, now: number): void {
    if (entry.isWaiting) return;
    if (entry.quota instanceof GateList && !entry.lane) {
      entry.parked = 'quota';
      return;
    }
    entry.readyAt = readyAt;
    const gate = this.gates.isEmpty ? undefined : this.#fullGate(entry, now);
    if (gate) this.#lists.park(entry, laneKey(entry.ask), gate, false);
    else this.#enterLane(entry);
  }

  /** The number of jobs that wait at gates. */
  get atGates(): number {
    return this.#lists.size;
  }

  /** Takes a job out of its lane, to wait at a gate. It is charged nothing: it was not picked. */
  park(entry: JobEntry, gate: Gate, isByBudget: boolean): void {
    this.unready(entry);
    this.#lists.park(entry, laneKey(entry.ask), gate, isByBudget);
    if (isByBudget) this.gates.shut.add(gate);
  }

  /** Puts jobs that their gates let through into their lanes. */
  letThrough(now: number): void {
    for (const gate of this.gates.rollDue(now)) this.#lists.free(gate);
    if (!this.#lists.hasFreed) return;
    const isFree = (lane: string): boolean => (this.fleet.lanes.get(lane)?.freeBackends ?? 0) > 0;
    for (const entry of this.#lists.letThrough(isFree, LET_THROUGH_PER_STEP)) this.#enterLane(entry);
    if (this.#lists.hasFreed) this.isUnfinished = true;
  }

  /** Replaces the limits of starts. What runs and what is reserved is counted again, from the open attempts. */
  limitStarts(
    limits: readonly LimitSpec[],
    spent: (scope: string) => SpentRecord | undefined,
    open: Iterable<JobEntry>,
    now: number,
  ): void {
    this.gates.configure(limits, spent);
    for (const entry of open) {
      const attempt = entry.open;
      if (!attempt) continue;
      entry.quota = undefined;
      this.attemptBegun(entry, attempt, now);
      if (usesSlot(attempt)) this.gates.run(gatesOf(entry), 1);
    }
    this.#lists.moveTo((name) => this.gates.find(name, now));
    for (const { info } of this.fleet.backends.values()) this.#limitSlots(info.name, now);
  }

  /** Adds a backend or replaces its declaration. */
  putBackend(info: BackendInfo, now: number): void {
    this.fleet.put(info);
    this.#limitSlots(info.name, now);
  }

  #limitSlots(backend: string, now: number): void {
    this.fleet.limitSlots(backend, this.gates.seat(backend, now)?.limit.running);
  }

  /** The narrow gate with no room for another attempt, if there is one. */
  #fullGate(entry: JobEntry, now: number): Gate | undefined {
    const gates = this.gates.of(entry.ask, modelOf(entry), now);
    return gates.find((gate) => gate.limit.running !== undefined && !isBroad(gate) && isFull(gate));
  }

  #enterLane(entry: JobEntry): void {
    const lane = laneOf(entry) ?? this.fleet.findOrCreateLane(entry.ask);
    entry.lane = lane;
    lane.queueOf(entry.ask.spec.priority).add(entry);
    this.#countWaiting(entry, 1);
    this.fleet.updateLane(lane);
  }

  unready(entry: JobEntry): void {
    this.#lists.leave(entry, laneKey(entry.ask));
    const lane = laneOf(entry);
    if (!lane) return;
    // A picked job has left the queue of its lane already.
    if (entry.isWaiting) lane.queueOf(entry.ask.spec.priority).remove(entry);
    entry.lane = undefined;
    this.#countWaiting(entry, -1);
    this.fleet.updateLane(lane);
  }

  attemptBegun(entry: JobEntry, { backend, bill }: AttemptRecord, now: number): void {
    if (this.gates.isEmpty) return;
    const gates = this.gates.of(entry.ask, modelOf(entry), now);
    const seat = this.gates.seat(backend, now);
    if (seat) gates.push(seat);
    entry.quota = gates;
    this.gates.begin(gates, bill?.reserved ?? 0);
  }

  attemptOver(entry: JobEntry, { bill }: AttemptRecord, now: number): void {
    const gates = gatesOf(entry);
    entry.quota = undefined;
    if (this.gates.isEmpty) return;
    this.gates.settle(gates, bill?.reserved ?? 0, bill?.cost ?? 0, now);
    for (const gate of gates) this.#lists.free(gate);
  }

  attemptOpened(entry: JobEntry, { backend, at }: AttemptRecord): void {
    this.fleet.occupy(backend, at, entry.ask.spec.priority);
    this.gates.run(gatesOf(entry), 1);
  }

  attemptClosed(entry: JobEntry, { backend, at }: AttemptRecord, now: number): void {
    this.fleet.vacate(backend, now, at, entry.ask.spec.priority);
    const gates = gatesOf(entry);
    this.gates.run(gates, -1);
    for (const gate of gates) this.#lists.free(gate);
  }

  #countWaiting({ ask }: JobEntry, by: 1 | -1): void {
    const waiting = this.waiting[ask.spec.priority];
    waiting.jobs += by;
    waiting.bytes += by * ask.payloadBytes;
  }
}
