/** Sets and deletes routes. They share the names of the catalog: no model has the name of a route. */
import { isTimeZone } from '../../kit/window.ts';
import { OrchdError } from '../../model/errors.ts';
import { MODEL } from '../../model/job-spec.ts';
import type { RouteRecord, RouteStep } from '../../model/route.ts';
import type { Turn } from '../turn.ts';

export const MAX_ROUTES = 1000;
const isName = new RegExp(MODEL);

/** Adds a route or replaces its steps. Jobs that are on their way go on from the step of their model. */
export function setRoute(turn: Turn, id: string, steps: readonly RouteStep[], by: string): RouteRecord {
  const { catalog, tables } = turn.state;
  if (!isName.test(id)) throw invalid('id', 'this is not a valid name of a route');
  const model = catalog.find(id);
  if (model) throw new OrchdError('ILLEGAL_STATE', `"${id}" is the name of the model "${model.id}"`);
  if (!tables.route.get(id) && tables.route.size >= MAX_ROUTES)
    throw invalid('id', `there are ${MAX_ROUTES} routes already`);
  for (const [at, step] of steps.entries()) checkStep(turn, id, steps, step, at);
  checkWeights(steps);
  const record: RouteRecord = { v: 1, id, steps, by, at: turn.now };
  turn.put('route', id, record, { is: 'set', by });
  return record;
}

export function dropRoute(turn: Turn, id: string, by: string): void {
  if (!turn.state.tables.route.get(id)) throw new OrchdError('NOT_FOUND', `there is no route "${id}"`);
  turn.put('route', id, null, { is: 'set', by });
}

function checkStep(
  { state }: Turn,
  id: string,
  steps: readonly RouteStep[],
  { model, on, waitMs, time }: RouteStep,
  at: number,
): void {
  const nameOf = (name: string): string => state.catalog.find(name)?.id ?? name;
  if (model === id) throw invalid(`steps[${at}].model`, `the route "${id}" names itself`);
  if (state.tables.route.get(model))
    throw invalid(`steps[${at}].model`, `"${model}" is a route, not a model`);
  if (steps.slice(0, at).some((step) => nameOf(step.model) === nameOf(model)))
    throw invalid(`steps[${at}].model`, `"${model}" is there twice`);
  if (on.includes('wait_ms') !== (waitMs !== undefined))
    throw invalid(`steps[${at}].wait_ms`, 'wait_ms and "wait_ms" in `on` need each other');
  if (on.includes('time') !== (time !== undefined))
    throw invalid(`steps[${at}].time`, 'time and "time" in `on` need each other');
  if (time && !isTimeZone(time.timeZone))
    throw invalid(`steps[${at}].time.time_zone`, `"${time.timeZone}" is not a time zone`);
  if (time?.from === time?.to && time) throw invalid(`steps[${at}].time.to`, 'is the same as from');
}

/** Weights are for the first steps: a job begins at one of them. */
function checkWeights(steps: readonly RouteStep[]): void {
  const count = steps.findIndex(({ weight }) => weight === undefined);
  const late = count === -1 ? -1 : steps.findIndex(({ weight }, at) => at > count && weight !== undefined);
  if (late !== -1) throw invalid(`steps[${late}].weight`, 'only the first steps may have weights');
  if (steps[0]?.weight !== undefined && steps.every(({ weight = 0 }) => weight === 0))
    throw invalid('steps[0].weight', 'all weights are 0');
}

const invalid = (field: string, message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `${field}: ${message}`, { field });
