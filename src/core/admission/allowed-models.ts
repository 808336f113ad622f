/** Refuses jobs for models that the caller's token may not use. */
import { OrchdError } from '../../model/errors.ts';
import { isListed } from '../../model/model-list.ts';
import type { RouteRecord } from '../../model/route.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

type Allowed = Submission['allowedModels'];

/**
 * Throws unless the caller may use the model, by the name that it has used or by the model's id. It does not depend on
 * whether there is such a model: a caller learns nothing of those that it may not use.
 */
export function checkAllowed(turn: Turn, name: string | undefined, allowed: Allowed): void {
  if (allowed === undefined || (name !== undefined && mayUse(turn, name, allowed))) return;
  throw notAllowed(name);
}

/** A route may be used by whoever may use its name, or every model of it: a job may get to any step. */
export function checkRouteAllowed(turn: Turn, { id, steps }: RouteRecord, allowed: Allowed): void {
  if (allowed === undefined || isListed(allowed, id)) return;
  if (!steps.every(({ model }) => mayUse(turn, model, allowed))) throw notAllowed(id);
}

function mayUse({ state }: Turn, name: string, allowed: Allowed): boolean {
  const id = state.catalog.find(name)?.id ?? name;
  return isListed(allowed, name) || isListed(allowed, id);
}

function notAllowed(name: string | undefined): OrchdError {
  const message =
    name === undefined
      ? 'the token may use some models only, and the job names none'
      : `the token may not use the model "${name}"`;
  return new OrchdError('FORBIDDEN', message, { reason: 'model_not_allowed', field: 'model' });
}
