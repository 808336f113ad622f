/**
 * Decides which job runs next and on which backend. It adds changes to the turn, takes
 * the job out of its lane, and updates the counters of lanes, backends and the start rate.
 *
 * Agents share fairly only within a lane (queue/class-queue.ts). Between lanes it is first come, first served: interactive
 * before batch, then the lane whose next job was admitted first. No two jobs have the same admission number, so there are
 * no ties.
 */
import type { Cause, PickReason } from '../../model/causes.ts';
import { claim, newAttempt } from '../../model/moves.ts';
import { tokenOf } from '../../model/records.ts';
import type { BackendEntry, Lane } from '../queue/fleet.ts';
import type { ClassPick } from '../queue/lane.ts';
import type { LanePolicy, PoolSettings } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { State } from '../state/state.ts';
import type { EngineView, Turn } from '../turn.ts';
import { place } from './placement/place.ts';

export interface DecideSettings extends LanePolicy {
  readonly pools: PoolSettings;
}

export interface Decision {
  readonly entry: JobEntry;
  readonly backend: BackendEntry;
  readonly cause: Cause;
}

/** Claims jobs until no ready job has a free backend. */
export function schedule(turn: Turn): void {
  turn.fleet.unblock(turn.now);
  if (turn.state.full || turn.state.paused || turn.now < turn.queue.claimsFrom) return;
  for (;;) {
    const decision = decide(turn, turn.settings, turn.now);
    if (!decision) return;
    claimJob(turn, decision);
  }
}

/** Takes the next job out of its lane and chooses its backend. */
export function decide(view: EngineView, settings: DecideSettings, now: number): Decision | undefined {
  const best = nextLane(view.queue.fleet.runnable, settings, now);
  if (!best) return undefined;
  const entry = best.lane.take(best.pick);
  const placed = entry && place(view.state, settings.pools, best.lane, entry);
  if (!entry || !placed) return undefined;
  const { backend } = placed;
  if (best.pick.class === 'interactive') {
    for (const lane of backend.lanes) if (lane !== best.lane) lane.passedOver();
  }
  return { entry, backend, cause: causeOf(best.pick, placed.reason) };
}

/** Why this job was picked and, unless the load alone decided, why it was placed there. */
function causeOf({ reason: pick }: ClassPick, place: string): Cause {
  return place === 'least-loaded' || place === 'only-free' ? BY_LOAD[pick] : { is: 'claim', pick, place };
}

/** The usual causes, allocated once because every claim needs one. */
const BY_LOAD: Readonly<Record<PickReason, Cause>> = {
  'only-class': { is: 'claim', pick: 'only-class' },
  'interactive-first': { is: 'claim', pick: 'interactive-first' },
  'batch-share': { is: 'claim', pick: 'batch-share' },
};

interface LanePick {
  readonly lane: Lane;
  readonly pick: ClassPick;
}

/** The lane to serve next: the lowest rankOf(), then the lane whose next job was admitted first. */
function nextLane(runnable: Iterable<Lane>, policy: LanePolicy, now: number): LanePick | undefined {
  let best: (LanePick & { n: number }) | undefined;
  for (const lane of runnable) {
    const pick = lane.nextClass(policy, now);
    const head = lane.queueOf(pick.class).head();
    if (!head) continue;
    const n = head.ask.n;
    if (!best || goesFirst(pick, n, best)) best = { lane, pick, n };
  }
  return best;
}

function goesFirst(pick: ClassPick, n: number, best: LanePick & { n: number }): boolean {
  const rank = rankOf(pick);
  const bestRank = rankOf(best.pick);
  return rank === bestRank ? n < best.n : rank < bestRank;
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

function claimJob(turn: Turn, decision: Decision): void {
  const { entry, backend, cause } = decision;
  const n = nextAttempt(turn.state, entry);
  const { name, registry } = backend.info;
  turn.put('job', entry.uid, claim(entry.job, n, name), cause);
  turn.put(
    'attempt',
    tokenOf(entry.uid, n),
    newAttempt({ job: entry.uid, n, backend: name, registry, epoch: turn.epoch, at: turn.now }),
    cause,
  );
  turn.queue.startRate.started(turn.now);
}
