/**
 * Decides which job runs next and on which backend. It adds changes to the turn, takes
 * the job out of its lane, and updates the counters of lanes, backends and the start rate.
 *
 * Agents share fairly only within a lane (queue/class-queue.ts). Between lanes it is first come, first served: interactive
 * before batch, then the lane whose next job was admitted first. No two jobs have the same admission number, so there are
 * no ties.
 */
import type { Cause } from '../../model/causes.ts';
import type { ErrorInfo } from '../../model/errors.ts';
import { isEarlier } from '../../model/line.ts';
import { claim, die, newAttempt, reroute } from '../../model/moves.ts';
import type { Bill } from '../../model/price.ts';
import { tokenOf } from '../../model/records.ts';
import type { RoutePlace, RouteReason } from '../../model/route.ts';
import { mostTokens } from '../governance/governance.ts';
import type { BackendEntry, Lane } from '../queue/fleet.ts';
import type { ClassPick } from '../queue/lane.ts';
import type { Queue } from '../queue/queue.ts';
import type { LanePolicy } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { State } from '../state/state.ts';
import type { EngineView, Turn } from '../turn.ts';
import { holderOf, priceMs } from './affinity.ts';
import { type Denial, deniedError, isCritical, noteDenied, whyDenied } from './denied.ts';
import { nextPlace, whyLeave, whyUnusable } from './routing.ts';
import { mayStart, type Start, type StartSettings } from './start.ts';

export interface DecideSettings extends LanePolicy, StartSettings {}

export type Decision =
  | {
      readonly is: 'claim';
      readonly entry: JobEntry;
      readonly backend: BackendEntry;
      readonly cause: Cause;
      readonly bill: Bill | undefined;
    }
  /** The job goes on to another model of its route. */
  | {
      readonly is: 'reroute';
      readonly entry: JobEntry;
      readonly place: RoutePlace;
      readonly why: RouteReason;
    }
  /** The job cannot ever start. */
  | { readonly is: 'never'; readonly entry: JobEntry; readonly error: ErrorInfo }
  /** The rules of governance forbid the start. */
  | { readonly is: 'denied'; readonly entry: JobEntry; readonly denial: Denial };

/** Jobs that one step may send to wait at a gate, a few milliseconds of work; the next tick goes on. */
const MAX_PARKED = 1000;

/** Claims jobs until no ready job has a free backend. */
export function schedule(turn: Turn): void {
  turn.fleet.unblock(turn.now);
  turn.queue.isUnfinished = false;
  if (turn.state.full || turn.state.paused || turn.now < turn.queue.claimsFrom) return;
  leaveUnusableLanes(turn);
  for (;;) {
    turn.queue.letThrough(turn.now);
    const decision = decide(turn, turn.settings, turn.now);
    if (!decision) return;
    if (decision.is === 'claim') claimJob(turn, decision);
    else if (decision.is === 'reroute') sendOn(turn, decision.entry, decision.place, decision.why);
    else if (decision.is === 'denied') {
      endDenied(turn, decision.entry, decision.denial);
      // The mode changes when the step has handled the violation: until then nothing more is claimed.
      if (isCritical(decision.denial)) {
        turn.queue.isUnfinished = true;
        return;
      }
    } else endUnstarted(turn, decision.entry, decision.error);
  }
}

/** Takes the next job that may start out of its lane and chooses its backend. */
export function decide(view: EngineView, settings: DecideSettings, now: number): Decision | undefined {
  const { queue } = view;
  for (let parked = 0; parked < MAX_PARKED; ) {
    const next = nextJob(view, settings, now);
    if (!next) return undefined;
    const { lane, entry, pick } = next;
    if (view.state.pauses.holds(entry)) {
      // A job above it was paused in this step or the last ones, and this one is not out of its lane yet.
      view.state.settle(entry, now);
      parked++;
      continue;
    }
    // It came into its lane before the session or the backend was known, or a backend was free.
    const holder = pick && holderOf(view, settings.sticky, entry, now);
    if (holder && !holder.backend.free) {
      queue.stick(entry, holder, now);
      parked++;
      continue;
    }
    const denial = whyDenied(view, entry);
    if (denial) return allowedInstead(view, settings, entry, now) ?? { is: 'denied', entry, denial };
    const start = mayStart(view, settings, lane, entry, now);
    const reroute = entry.job.place && routeInstead(view, settings, entry, start, now);
    if (reroute) return reroute;
    switch (start.is) {
      case 'go':
        return claimOf(queue, next, start, now);
      case 'never':
        return { is: 'never', entry, error: start.error };
      case 'held':
        if (pick) queue.hold(lane, entry, start.gate);
        else queue.sticky.hold(entry, queue.gates.version);
        break;
      case 'at-gate':
        queue.park(entry, start.gates, start.gate, start.why);
        parked++;
    }
  }
  queue.isUnfinished = true;
  return undefined;
}

/** The job that is looked at next; without a `pick` it waits for a backend that is free now. */
interface NextJob {
  readonly lane: Lane;
  readonly entry: JobEntry;
  readonly pick: ClassPick | undefined;
}

/**
 * A job whose backend with its conversation is free now goes before those of the lanes, unless these are of a higher class,
 * or have waited longer than it costs to move a conversation: begun conversations do not keep others from beginning.
 */
function nextJob({ queue }: EngineView, settings: DecideSettings, now: number): NextJob | undefined {
  const entry = nextSticky(queue);
  // After nextSticky, which may have put a job into its lane.
  const best = nextLane(queue, settings, now);
  if (!entry) return best;
  const lane = queue.laneFor(entry);
  if (!best) return { lane, entry, pick: undefined };
  const rank = entry.ask.spec.priority === 'interactive' ? 0 : 1;
  const hasAged = now - best.entry.readyAt > priceMs(settings.sticky, best.lane);
  const isFirst =
    rank === rankOf(best.pick) ? !hasAged || isEarlier(entry.ask, best.entry.ask) : rank < rankOf(best.pick);
  return isFirst ? { lane, entry, pick: undefined } : best;
}

/** The next job whose backend with its conversation is free. */
function nextSticky(queue: Queue): JobEntry | undefined {
  for (;;) {
    const next = queue.sticky.next(queue.gates.version);
    if (!next || next.list.backend.lanes.includes(queue.laneFor(next.entry))) return next?.entry;
    // The backend has declared itself anew, and cannot run the job any more.
    queue.unstick(next.entry);
  }
}

function claimOf(
  queue: Queue,
  { lane, entry, pick }: NextJob,
  start: Extract<Start, { is: 'go' }>,
  now: number,
): Decision {
  const { backend, bill, reason } = start;
  if (pick) lane.take(pick);
  else queue.takeSticky(entry);
  if (entry.ask.spec.priority === 'interactive') passOver(backend, lane);
  const isOfConversation = reason === 'context' || reason === 'moved';
  const place = isOfConversation && queue.sticky.hasWaited(entry, now) ? `${reason}-after-wait` : reason;
  const cause: Cause = pick ? causeOf(pick, place) : { is: 'claim', pick: 'sticky', place };
  return { is: 'claim', entry, backend, bill, cause };
}

/** A job of a route goes to the next model instead, if its step lists what speaks against a start here. */
function routeInstead(
  { state, queue }: EngineView,
  settings: DecideSettings,
  entry: JobEntry,
  start: Start,
  now: number,
): Decision | undefined {
  const view = { state, queue, settings };
  const why = whyLeave(view, entry, now) ?? (isByBudget(start) ? 'budget' : undefined);
  const place = why && nextPlace(view, entry, why, now);
  return place && { is: 'reroute', entry, place, why };
}

/** A job of a route goes on from a model that the rules of governance forbid. */
function allowedInstead(
  { state, queue }: EngineView,
  settings: DecideSettings,
  entry: JobEntry,
  now: number,
): Decision | undefined {
  const place = entry.job.place && nextPlace({ state, queue, settings }, entry, 'forbidden', now);
  return place && { is: 'reroute', entry, place, why: 'forbidden' };
}

const isByBudget = (start: Start): boolean =>
  start.is === 'never' ||
  (start.is === 'at-gate' && start.why !== 'running') ||
  (start.is === 'held' && start.gate?.isHard === true);

function sendOn(turn: Turn, entry: JobEntry, place: RoutePlace, why: RouteReason): void {
  turn.put('job', entry.uid, reroute(entry.job, place), { is: 'routed', why });
}

/** Jobs sent along their routes in one step, a few milliseconds of work; the next tick goes on. */
const MAX_SENT_ON = 500;

/** Sends jobs of routes on that wait for backends of which none can be used for a while. */
function leaveUnusableLanes(turn: Turn): void {
  let sent = 0;
  for (const lane of turn.queue.routedLanes()) {
    // Backends that have not registered yet, after a start, are waited for.
    const reasons = lane.freeBackends > 0 || lane.backends.length === 0 ? [] : whyUnusable(lane, turn.now);
    const key = reasons.join();
    if (lane.leftFor === key) continue;
    for (const entry of key === '' ? [] : [...(lane.routed ?? [])]) {
      for (const why of reasons) {
        const place = nextPlace(turn, entry, why, turn.now);
        if (!place) continue;
        sendOn(turn, entry, place, why);
        if (++sent === MAX_SENT_ON) {
          turn.queue.isUnfinished = true;
          return;
        }
        break;
      }
    }
    lane.leftFor = key;
  }
}

function passOver(backend: BackendEntry, picked: Lane): void {
  for (const lane of backend.lanes) if (lane !== picked) lane.passedOver();
}

/** Why this job was picked and, unless the load alone decided, why it was placed there. */
function causeOf({ reason: pick }: ClassPick, place: string): Cause {
  return place === 'least-loaded' || place === 'only-free' ? BY_LOAD[pick] : { is: 'claim', pick, place };
}

/** The usual causes, allocated once because every claim needs one. */
const BY_LOAD: Readonly<Record<ClassPick['reason'], Cause>> = {
  'only-class': { is: 'claim', pick: 'only-class' },
  'interactive-first': { is: 'claim', pick: 'interactive-first' },
  'batch-share': { is: 'claim', pick: 'batch-share' },
};

interface LanePick {
  readonly lane: Lane;
  readonly pick: ClassPick;
  /** The job that is next there. */
  readonly entry: JobEntry;
}

/** The lane to serve next: the lowest rankOf(), then the lane whose next job was admitted first. */
function nextLane({ fleet, gates }: Queue, policy: LanePolicy, now: number): LanePick | undefined {
  let best: LanePick | undefined;
  for (const lane of fleet.runnable) {
    const pick = lane.nextClass(policy, now);
    const head = lane.queueOf(pick.class).head();
    if (!head) continue;
    if (lane.held?.next === head && lane.held.at === gates.version) continue;
    lane.held = undefined;
    if (!best || goesFirst(pick, head, best)) best = { lane, pick, entry: head };
  }
  return best;
}

function goesFirst(pick: ClassPick, { ask }: JobEntry, best: LanePick): boolean {
  const rank = rankOf(pick);
  const bestRank = rankOf(best.pick);
  return rank === bestRank ? isEarlier(ask, best.entry.ask) : rank < bestRank;
}

/** A batch job that is due by the batch share ranks like an interactive one. */
function rankOf(pick: ClassPick): number {
  return pick.class === 'interactive' || pick.reason === 'batch-share' ? 0 : 1;
}

/** Attempt numbers never repeat, even for an id that a caller chose again after its job was purged; `ask.hash` is set if
 * the caller chose the id. */
function nextAttempt(state: State, entry: JobEntry): number {
  const floor = entry.ask.hash === undefined ? 0 : (state.brain?.attemptFloor ?? 0);
  return Math.max(entry.job.attempt, floor) + 1;
}

/** A job whose cost no budget can ever hold ends without a start. */
function endUnstarted(turn: Turn, entry: JobEntry, error: ErrorInfo): void {
  turn.put('job', entry.uid, die(entry.job, turn.now, 'failed', error), 'dead');
}

/** A job that the rules allowed at its admission, and forbid by now. */
function endDenied(turn: Turn, entry: JobEntry, denial: Denial): void {
  noteDenied(turn, entry, denial);
  endUnstarted(turn, entry, deniedError(denial).info());
}

function claimJob(turn: Turn, decision: Extract<Decision, { is: 'claim' }>): void {
  const { entry, backend, cause, bill } = decision;
  const n = nextAttempt(turn.state, entry);
  const { name, registry, isPulled } = backend.info;
  const model = entry.job.place?.model;
  turn.put('job', entry.uid, claim(entry.job, n, name), cause);
  const { epoch, now: at } = turn;
  const maxTokens = mostTokens(turn.state.governance, entry.ask.spec);
  const of = { job: entry.uid, n, backend: name, registry };
  const attempt = newAttempt({ ...of, epoch, at, bill, model, maxTokens, isPulled });
  turn.put('attempt', tokenOf(entry.uid, n), attempt, cause);
  turn.queue.startRate.started(turn.now);
}
