/**
 * The ready jobs in their lanes, and the fleet of backends that can run them. The queue follows the state and decides
 * nothing.
 *
 * Q1  A job is in a lane exactly while the state reports it as ready, unless it waits at a gate or for the backend with
 *     its conversation.
 * Q2  The used slots of a backend are the attempts open on it, without those that its executor no longer runs.
 */
import type { LimitSpec, SpentRecord } from '../../model/limit-records.ts';
import type { AttemptRecord, JobClass } from '../../model/records.ts';
import { usesSlot } from '../../model/states.ts';
import type { Gate } from '../limits/gate.ts';
import { Gates } from '../limits/gates.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { StateFollower } from '../state/follower.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { Fleet, type Lane, laneOf } from './fleet.ts';
import { ahead, GateGroup } from './gate-group.ts';
import { GateLists, isLetThrough, type WaitsFor, waitingLane } from './gate-lists.ts';
import { laneKey, needSourceOf } from './lane.ts';
import { Retries } from './retries.ts';
import { StartRate } from './start-rate.ts';
import { type Holder, type HolderOf, StickyLists } from './sticky.ts';

/** Jobs put back into their lanes in one step, some milliseconds of work. */
const LET_THROUGH_PER_STEP = 2000;

const NO_GATES: readonly Gate[] = [];

/** The gates of an open attempt. The cast is safe: only Queue writes arrays there. */
const gatesOf = ({ quota }: JobEntry): readonly Gate[] =>
  Array.isArray(quota) ? (quota as readonly Gate[]) : NO_GATES;

/** Whether jobs may have to wait at this gate, one by one. */
const holdsJobs = (gate: Gate): boolean => !gate.isBroad && (gate.limitsStarts || gate.isHard);

/** Whether the job goes next in its lane, and a backend is free for it. */
function isNextInLane(entry: JobEntry): boolean {
  const lane = laneOf(entry);
  return (lane?.freeBackends ?? 0) > 0 && lane?.queueOf(entry.ask.spec.priority).head() === entry;
}

/** The model that an attempt of the job is for. */
export const modelOf = ({ ask, job, open }: JobEntry): string | undefined =>
  open?.model ?? job.place?.model ?? ask.spec.model;

export class Queue implements StateFollower {
  /** The jobs that wait for the backend with their conversation. */
  readonly sticky = new StickyLists();
  readonly fleet = new Fleet(this.sticky);
  /** Ready jobs by class, over all lanes. */
  readonly waiting: Record<JobClass, { jobs: number; bytes: number }> = {
    interactive: { jobs: 0, bytes: 0 },
    batch: { jobs: 0, bytes: 0 },
  };
  readonly startRate = new StartRate();
  /** No job is claimed before this instant; set by attempts/expiry.ts. */
  claimsFrom = 0;
  readonly gates = new Gates();
  readonly #retries: Retries;
  readonly #lists = new GateLists((gate) => this.#retries.hold(gate));
  #lastLimitGates:
    | {
        readonly entry: JobEntry;
        readonly now: number;
        readonly model: string | undefined;
        readonly gates: readonly Gate[];
        readonly generation: number;
      }
    | undefined;
  /** Lanes with jobs of routes. */
  readonly #routedLanes = new Set<Lane>();
  /** Of each broad gate whose budget holds up lanes: the first of the jobs that are next there. */
  readonly #firstHeld = new Map<Gate, JobEntry>();
  readonly #isFree = (lane: string): boolean => (this.fleet.lanes.get(lane)?.freeBackends ?? 0) > 0;
  /** More jobs are to be parked or let through than one step does: the next tick goes on. */
  isUnfinished = false;

  readonly #holderOf: HolderOf;

  /** `retryShare`: retries on providers are at most this share of the first starts there. */
  constructor(retryShare: number, holderOf: HolderOf = () => undefined) {
    this.#retries = new Retries(retryShare);
    this.#holderOf = holderOf;
  }

  ready(entry: JobEntry, readyAt: number, now: number): void {
    if (entry.job.place) this.#followRoute(entry);
    if (entry.isWaiting) return;
    if (this.sticky.has(entry)) {
      entry.parked = 'sticky';
      return;
    }
    if (entry.quota instanceof GateGroup && !entry.lane) {
      entry.parked = 'quota';
      return;
    }
    entry.readyAt = readyAt;
    if (this.#lists.parkLate(entry)) return;
    if (!this.gates.hasRunning && entry.job.tries === 0) return this.#enter(entry, now);
    const gates = this.gatesOf(entry, now);
    const full = gates.find((gate) => !gate.isBroad && this.isFull(gate, entry));
    const lane = (): string => laneKey(needSourceOf(entry));
    if (full) return this.#lists.park(entry, lane(), gates.filter(holdsJobs), full, 'running');
    if (gates.some((gate) => gate.limitsStarts && !gate.isBroad))
      this.#lists.letIn(entry, lane(), gates.filter(holdsJobs));
    this.#enter(entry, now);
  }

  /** Puts a job that may start to those that wait for the backend with their conversation, or into its lane. */
  #enter(entry: JobEntry, now: number): void {
    const holder = this.#holderOf(entry, now);
    if (holder) this.stick(entry, holder, now);
    else this.#enterLane(entry);
  }

  /** A job that waits at a gate finds its backend when it is let through. */
  conversationMoved(entry: JobEntry, now: number): void {
    const wait = this.sticky.of(entry);
    if (!wait && !laneOf(entry)) return;
    const holder = this.#holderOf(entry, now);
    if (holder?.backend === wait?.list.backend) return;
    if (holder) this.stick(entry, holder, now);
    else this.unstick(entry);
  }

  /** A job that was sent to another model leaves the lane, or the gate, of the former one. */
  #followRoute(entry: JobEntry): void {
    const lane = laneOf(entry);
    if (this.sticky.has(entry)) return this.sticky.leave(entry);
    const key = lane?.key ?? waitingLane(entry);
    if (key !== undefined && key !== laneKey(needSourceOf(entry))) this.unready(entry);
    else if (lane) this.#routedLanes.add(lane.addRouted(entry));
  }

  /** The number of jobs that wait at gates. */
  get atGates(): number {
    return this.#lists.size;
  }

  /** Takes a job out of its lane, to wait at a gate. It is charged nothing: it was not picked. */
  park(entry: JobEntry, gates: readonly Gate[], at: Gate, why: WaitsFor): void {
    this.unready(entry);
    this.#lists.park(entry, laneKey(needSourceOf(entry)), gates.filter(holdsJobs), at, why);
    if (why !== 'running') this.gates.shut(at);
  }

  /** Takes a job out of its lane, if it is in it, to wait for a backend. It is charged nothing: it was not picked. */
  stick(entry: JobEntry, { backend, until }: Holder, now: number): void {
    this.unready(entry);
    this.sticky.add(entry, backend, until, now);
  }

  /** A job waits no longer for one backend, and goes to its lane. */
  unstick(entry: JobEntry): void {
    this.sticky.leave(entry);
    entry.parked = undefined;
    this.#enterLane(entry);
  }

  /** Takes out a job that starts on the backend it has waited for. Its agent is charged as for a pick from the lane. */
  takeSticky(entry: JobEntry): void {
    this.sticky.leave(entry);
    entry.parked = undefined;
    this.laneFor(entry).queueOf(entry.ask.spec.priority).charge(entry);
  }

  /** The lane of a job, also of one that is in none. */
  laneFor(entry: JobEntry): Lane {
    return laneOf(entry) ?? this.fleet.findOrCreateLane(needSourceOf(entry));
  }

  /** Whether the gate lets no attempt of the job run now. */
  isFull(gate: Gate, entry: JobEntry): boolean {
    if (!gate.limitsStarts) return false;
    if (isLetThrough(entry) || gate.isBroad) return gate.room <= 0;
    return this.#lists.isFull(gate, entry, () => laneKey(needSourceOf(entry)), this.#isFree);
  }

  /** Whether jobs that wait for the budget of the gate go before this one. */
  isBehind(gate: Gate, entry: JobEntry): boolean {
    if (gate.isBroad) {
      const first = this.#firstHeld.get(gate);
      if (first === undefined) return false;
      // Within a lane its two classes decide who is next: a batch job that is due goes before an interactive one.
      return laneOf(first) !== laneOf(entry) && isNextInLane(first) && ahead(first, entry);
    }
    return this.#lists.isBehind(gate, entry, () => laneKey(needSourceOf(entry)), this.#isFree);
  }

  /** No job of the lane starts before gates let more through, its next job changes, or a backend becomes free. */
  hold(lane: Lane, next: JobEntry, gate: Gate | undefined): void {
    lane.held = { next, at: this.gates.version, by: gate };
    if (!gate) return;
    this.gates.shut(gate);
    if (!gate.isHard) return;
    const first = this.#firstHeld.get(gate);
    if (!first || !isNextInLane(first) || ahead(next, first)) this.#firstHeld.set(gate, next);
  }

  /** The gates that an attempt of the job passes, the narrowest first; without those of seats and pools. */
  gatesOf(entry: JobEntry, now: number): readonly Gate[] {
    const gates = this.gates.isEmpty ? NO_GATES : this.#limitGates(entry, now);
    if (entry.job.tries === 0 || !this.#hasProvider(entry)) return gates;
    return [...this.#retries.of(entry, now), ...gates];
  }

  /** The gates of limits. A claim needs those that its decision has just looked up. */
  #limitGates(entry: JobEntry, now: number): readonly Gate[] {
    const model = modelOf(entry);
    const last = this.#lastLimitGates;
    const isSame = last?.entry === entry && last.now === now && last.model === model;
    if (isSame && last.generation === this.gates.generation) return last.gates;
    const gates = this.gates.of(entry.ask, model, now);
    this.#lastLimitGates = { entry, now, model, gates, generation: this.gates.generation };
    return gates;
  }

  /** Whether a backend that could run the job has a provider. */
  #hasProvider(entry: JobEntry): boolean {
    return this.laneFor(entry).backends.some(({ info }) => info.hasProvider);
  }

  /** Brain time was stepped: the rest of every wait stays as it was. */
  moveInstants(byMs: number): void {
    this.fleet.moveInstants(byMs);
    this.gates.moveInstants(byMs);
    this.#retries.moveInstants(byMs);
    this.sticky.moveInstants(byMs);
  }

  /** The next instant at which a gate lets more jobs through, or a job waits no longer for one backend. */
  nextRelease(): number {
    return Math.min(this.gates.nextRoll(), this.#retries.nextDue(), this.sticky.nextDue());
  }

  /** The lanes in which jobs of routes wait. */
  *routedLanes(): Generator<Lane> {
    for (const lane of this.#routedLanes) {
      if (lane.routed?.size) yield lane;
      else this.#routedLanes.delete(lane);
    }
  }

  /** Puts jobs that their gates let through into their lanes. */
  letThrough(now: number): void {
    for (const gate of this.gates.rollDue(now)) this.#lists.free(gate);
    for (const gate of this.#retries.due(now)) this.#lists.free(gate);
    this.#unstickDue(now);
    if (!this.#lists.hasFreed) return;
    for (const entry of this.#lists.takeStale(LET_THROUGH_PER_STEP)) this.#parkAnew(entry, now);
    for (const entry of this.#lists.letThrough(this.#isFree, LET_THROUGH_PER_STEP)) this.#enter(entry, now);
    if (this.#lists.hasFreed) this.isUnfinished = true;
  }

  #unstickDue(now: number): void {
    if (!this.sticky.hasLost && this.sticky.nextDue() > now) return;
    const laneFor = (entry: JobEntry): Lane => this.laneFor(entry);
    for (const entry of [...this.sticky.release(now, LET_THROUGH_PER_STEP, laneFor)]) this.unstick(entry);
    if (this.sticky.hasLost || this.sticky.nextDue() <= now) this.isUnfinished = true;
  }

  /** A job that waited at a gate of former limits waits at one of its present gates, if it has any. */
  #parkAnew(entry: JobEntry, now: number): void {
    const gates = this.gatesOf(entry, now).filter(holdsJobs);
    const [first] = gates;
    if (!first) return this.#enter(entry, now);
    this.#lists.park(entry, laneKey(needSourceOf(entry)), gates, first, 'running');
    this.#lists.free(first);
  }

  /** Prices have changed: jobs that did not fit into a budget may fit now. */
  pricesChanged(): void {
    this.#lists.freeUnfit();
    this.gates.version++;
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
      this.#passGates(entry, attempt, now);
      if (usesSlot(attempt)) this.gates.run(gatesOf(entry), 1);
    }
    this.#lists.replaceAll((entry) => this.#leaveLane(entry));
    this.#firstHeld.clear();
    for (const { info } of this.fleet.backends.values()) this.#limitSlots(info.name, now);
  }

  /** Adds a backend or replaces its declaration. */
  putBackend(info: BackendInfo, now: number): void {
    this.fleet.put(info);
    this.#limitSlots(info.name, now);
    // It may have another price than the other backends of its lanes.
    this.#lists.freeUnfit();
  }

  #limitSlots(backend: string, now: number): void {
    this.fleet.limitSlots(backend, this.gates.seat(backend, now)?.limit.running);
  }

  #enterLane(entry: JobEntry): void {
    const lane = this.laneFor(entry);
    entry.lane = lane;
    if (entry.job.place) this.#routedLanes.add(lane.addRouted(entry));
    lane.queueOf(entry.ask.spec.priority).add(entry);
    this.#countWaiting(entry, 1);
    this.fleet.updateLane(lane);
  }

  unready(entry: JobEntry): void {
    this.#lists.leave(entry);
    this.sticky.leave(entry);
    this.#leaveLane(entry);
  }

  #leaveLane(entry: JobEntry): void {
    const lane = laneOf(entry);
    if (!lane) return;
    const heldBy = lane.held?.by;
    if (heldBy && this.#firstHeld.get(heldBy) === entry) {
      this.#firstHeld.delete(heldBy);
      this.gates.version++;
    }
    // A picked job has left the queue of its lane already.
    if (entry.isWaiting) lane.queueOf(entry.ask.spec.priority).remove(entry);
    lane.routed?.delete(entry);
    entry.lane = undefined;
    this.#countWaiting(entry, -1);
    this.fleet.updateLane(lane);
  }

  attemptBegun(entry: JobEntry, attempt: AttemptRecord, now: number): void {
    this.#countStart(entry, attempt, now);
    this.#passGates(entry, attempt, now);
    if (!this.gates.isEmpty) this.gates.noteStart(gatesOf(entry), now);
  }

  #countStart(entry: JobEntry, { backend }: AttemptRecord, now: number): void {
    if (!this.fleet.backends.get(backend)?.info.hasProvider) return;
    for (const gate of this.#retries.of(entry, now)) {
      if (entry.job.tries > 0) gate.retried(now);
      else gate.started();
      if (gate.waiting > 0) this.#lists.free(gate);
    }
  }

  #passGates(entry: JobEntry, { backend, bill }: AttemptRecord, now: number): void {
    if (this.gates.isEmpty) return;
    const limited = this.#limitGates(entry, now);
    const seat = this.gates.seat(backend, now);
    const gates = seat ? [...limited, seat] : limited;
    entry.quota = gates;
    this.gates.begin(gates, bill?.reserved ?? 0);
  }

  attemptOver(entry: JobEntry, attempt: AttemptRecord, now: number): void {
    const { backend, bill, outcome, acceptedAt } = attempt;
    const hasDoneNothing = outcome === 'turned_away' || (outcome === undefined && acceptedAt === undefined);
    if (hasDoneNothing && this.fleet.backends.get(backend)?.info.hasProvider)
      for (const gate of this.#retries.of(entry, now)) {
        gate.undo(entry.job.tries > 0);
        this.#lists.free(gate);
      }
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
