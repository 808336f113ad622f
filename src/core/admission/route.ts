/** Admits jobs that name a route instead of a model. */

import { uidOf } from '../../model/records.ts';
import type { RoutePlace } from '../../model/route.ts';
import { firstPlace } from '../scheduling/routing.ts';
import type { Turn } from '../turn.ts';
import { checkRouteAllowed } from './allowed-models.ts';
import { resolveModel } from './model.ts';
import type { Submission } from './submission.ts';

export interface Resolved {
  readonly submission: Submission;
  /** Where the job begins in its route; undefined for a job that names no route. */
  readonly place: RoutePlace | undefined;
}

/** The submission with its model resolved, that of the first usable step for a route; throws like resolveModel. */
export function resolveRoute(turn: Turn, requested: Submission): Resolved {
  const { spec, contextTokens: neededTokens } = requested;
  const route = spec.model === undefined ? undefined : turn.state.tables.route.get(spec.model);
  if (!route) return { submission: resolveModel(turn, requested), place: undefined };
  checkRouteAllowed(turn, route, requested.allowedModels);
  const ask = { ...requested, route: route.id, ancestors: ancestorsOf(turn, requested) };
  const place = firstPlace(turn, route, { ask, neededTokens, now: turn.now }, turn.random());
  const entered = { ...ask, spec: { ...spec, model: place.model }, allowedModels: undefined };
  return { submission: resolveModel(turn, entered), place };
}

/** The ids of the ancestors that the job will have, from the root down. */
export function ancestorsOf({ state }: Turn, { tenant, spec }: Submission): readonly string[] | undefined {
  const parent = spec.parent_id === undefined ? undefined : state.jobs.get(uidOf(tenant, spec.parent_id));
  return parent && [...(parent.ask.ancestors ?? []), parent.ask.id];
}
