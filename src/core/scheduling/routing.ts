/**
 * Decides which model of its route a job is for. A job enters the first step that it can be run at; it goes on when
 * something happens that the step lists in `on`. It never goes back: a job that comes later begins at the first step again.
 * There is no hedging: a job is at one step at a time (docs/decisions/0032).
 */
import { isWithin } from '../../kit/day-time.ts';
import {
  type RouteLeft,
  type RoutePlace,
  type RouteReason,
  type RouteRecord,
  type RouteStep,
  UNLISTED_REASON,
} from '../../model/route.ts';
import type { BackendEntry, Lane } from '../queue/fleet.ts';
import type { NeedSource } from '../queue/lane.ts';
import { judgeJob } from '../state/governed-job.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { modelNeed } from './model-need.ts';
import { StartChecks, type StartedAsk, type StartView } from './start-checks.ts';

/** A job of a route, before or after it was admitted. */
export type RoutedAsk = StartedAsk & Pick<NeedSource, 'spec'>;

/** What a route needs to know of a job, and when. */
interface Routing {
  readonly ask: RoutedAsk;
  readonly neededTokens: number | undefined;
  readonly now: number;
}

/** The place of a new job. `random` is a number in [0, 1). */
export function firstPlace(
  view: StartView,
  { steps }: RouteRecord,
  routing: Routing,
  random: number,
): RoutePlace {
  return advance(view, steps, routing, { at: weightedStep(steps, random), left: [] });
}

/** The next place of a job; undefined if it stays: the route is gone, this is its last step, or it does not list `why`. */
export function nextPlace(
  view: StartView,
  entry: JobEntry,
  why: RouteReason,
  now: number,
): RoutePlace | undefined {
  const { place } = entry.job;
  const found = stepOf(view, entry);
  if (!place || !found || found.at + 1 >= found.steps.length) return undefined;
  if (why !== UNLISTED_REASON && !found.step.on.includes(why)) return undefined;
  const left = [...place.left, { model: place.model, why }];
  const routing = { ask: entry.ask, neededTokens: place.neededTokens, now };
  return advance(view, found.steps, routing, { at: found.at + 1, left });
}

/** The step at which a job is; undefined if its route was deleted, or no longer has the model. */
function stepOf(
  { state }: StartView,
  { ask, job: { place } }: JobEntry,
): { readonly steps: readonly RouteStep[]; readonly at: number; readonly step: RouteStep } | undefined {
  const { steps } = (ask.route === undefined ? undefined : state.tables.route.get(ask.route)) ?? {};
  if (!steps || !place) return undefined;
  // The route may have been changed since the job entered it.
  const isSame = ({ model }: RouteStep): boolean => (state.catalog.find(model)?.id ?? model) === place.model;
  const there = steps[place.at];
  const at = there && isSame(there) ? place.at : steps.findIndex(isSame);
  const step = steps[at];
  return step && { steps, at, step };
}

/** Why the step of a waiting job cannot be used now, as far as the step lists it. */
export function whyLeave(view: StartView, entry: JobEntry, now: number): RouteReason | undefined {
  const found = stepOf(view, entry);
  if (!found) return undefined;
  const { neededTokens } = entry.job.place ?? {};
  return reasonToLeave(view, found.step, { ask: entry.ask, neededTokens, now });
}

/** The step at which a new job begins: the first, or one of the first that have weights. */
function weightedStep(steps: readonly RouteStep[], random: number): number {
  const end = steps.findIndex(({ weight }) => weight === undefined);
  const weights = steps.slice(0, end === -1 ? steps.length : end).map(({ weight = 0 }) => weight);
  let rest = random * weights.reduce((sum, weight) => sum + weight, 0);
  for (const [at, weight] of weights.entries()) {
    if (rest < weight) return at;
    rest -= weight;
  }
  return 0;
}

interface From {
  readonly at: number;
  readonly left: readonly RouteLeft[];
}

/** The first step, from one on, that nothing speaks against; the last one whatever speaks against it. */
function advance(view: StartView, steps: readonly RouteStep[], routing: Routing, from: From): RoutePlace {
  let { at, left } = from;
  for (; at < steps.length - 1; at++) {
    const step = steps[at] as RouteStep;
    const why = reasonToLeave(view, step, routing);
    if (why === undefined) break;
    left = [...left, { model: step.model, why }];
  }
  return placeAt(view, steps, at, left, routing);
}

function placeAt(
  { state, queue }: StartView,
  steps: readonly RouteStep[],
  at: number,
  left: readonly RouteLeft[],
  { neededTokens, now }: Routing,
): RoutePlace {
  const { model, on, waitMs } = steps[at] as RouteStep;
  const need = modelNeed(state, queue.fleet, model, neededTokens);
  const mayLeave = waitMs !== undefined && on.includes('wait_ms') && at + 1 < steps.length;
  return {
    at,
    ...(need === 'too_long' ? { model } : need),
    // Absent fields are left out, as the store returns them.
    ...(neededTokens !== undefined && { neededTokens }),
    ...(mayLeave && { leaveAt: now + waitMs }),
    left,
  };
}

function reasonToLeave(view: StartView, step: RouteStep, routing: Routing): RouteReason | undefined {
  const { on, time, model } = step;
  const { now, neededTokens, ask } = routing;
  if (isForbidden(view, ask, step.model)) return UNLISTED_REASON;
  if (time && on.includes('time') && !isWithin(time, now)) return 'time';
  const need = modelNeed(view.state, view.queue.fleet, model, neededTokens);
  if (need === 'too_long') return on.includes('too_long') ? 'too_long' : undefined;
  const { modelRef, contextTokens } = need;
  const source: NeedSource = { modelRef, contextTokens, spec: { ...ask.spec, model: need.model } };
  const lane = view.queue.fleet.findOrCreateLane(source);
  const isStartable = modelRef !== undefined && lane.backends.length === 0;
  const why = isStartable ? undefined : whyUnusable(lane, now).find((reason) => on.includes(reason));
  if (why !== undefined) return why;
  return on.includes('budget') && isOverBudget(view, lane, ask, need.model, now) ? 'budget' : undefined;
}

/** Tells whether the rules in force forbid the job the model of a step of its route. */
function isForbidden({ state }: StartView, ask: RoutedAsk, model: string): boolean {
  if (state.governance.isOpen || state.governance.gate.isShadow) return false;
  return judgeJob(state, ask, state.catalog.find(model)?.id ?? model).is === 'deny';
}

const NO_BACKEND: readonly RouteReason[] = ['error'];
const USABLE: readonly RouteReason[] = [];

/** How long an outage lasts before jobs are sent elsewhere, or people are told: a server that restarts is back by then. */
export const OUTAGE_GRACE_MS = 30_000;

/** Why no backend of the lane can be used for a while; empty if one can, be it busy. */
export function whyUnusable({ backends }: Lane, now: number): readonly RouteReason[] {
  if (backends.length === 0) return NO_BACKEND;
  const reasons = new Set<RouteReason>();
  for (const backend of backends) {
    const why = outageOf(backend, now);
    if (why === undefined) return USABLE;
    reasons.add(why);
  }
  return [...reasons];
}

function outageOf(backend: BackendEntry, now: number): RouteReason | undefined {
  const { paused, outageSince, blockedUntil, blockedFor, turnedAway } = backend;
  if (paused || (outageSince !== undefined && now - outageSince >= OUTAGE_GRACE_MS)) return 'error';
  if (blockedUntil <= now) return undefined;
  if (blockedFor === 'failing') return 'error';
  if (turnedAway === 0) return undefined;
  return blockedFor === 'auth_required' || blockedFor === 'unreachable' ? 'error' : 'rate_limited';
}

/** Whether a hard budget speaks against every backend of the lane now. */
function isOverBudget(view: StartView, lane: Lane, ask: StartedAsk, model: string, now: number): boolean {
  if (!view.queue.gates.hasHard || lane.backends.length === 0) return false;
  const checks = new StartChecks(view, ask, model, now);
  return lane.backends.every((backend) => checks.isOverBudget(backend));
}
