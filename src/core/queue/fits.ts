/** Tells which backends can run which jobs. */
import { isCpu } from '../../model/policy.ts';
import { OWN_TYPES } from '../../model/run-jobs.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { Need } from './lane.ts';

/** The part of a backend's declaration that decides which jobs it can run. */
export type Declared = Pick<BackendInfo, 'kind' | 'types' | 'models' | 'labels'> &
  Partial<Pick<BackendInfo, 'home' | 'hasForeignModels' | 'contextLength' | 'contextLengths'>>;

/** Whether a backend can run the jobs of a lane. `keepsCpu`: backends without a GPU run only jobs that ask for them. */
export function fits(need: Need, info: Declared, keepsCpu = false): boolean {
  if (keepsCpu && isCpu(info.labels) && !isCpu(need.labels)) return false;
  if (need.kind !== undefined && need.kind !== info.kind) return false;
  if (info.types === undefined ? OWN_TYPES.includes(need.type) : !info.types.includes(need.type))
    return false;
  // A worker (`home` is set) and an upstream run only jobs that name their model.
  if (need.model === undefined ? info.home !== undefined || info.hasForeignModels : !hasModel(need, info))
    return false;
  if (need.contextTokens !== undefined && need.contextTokens > contextOf(info, need.model)) return false;
  if (!need.labels) return true;
  return Object.entries(need.labels).every(([name, value]) => info.labels[name] === value);
}

/** The longest context that a backend has for a model, as far as it is known. */
const contextOf = ({ contextLength, contextLengths }: Declared, model: string | undefined): number =>
  (model === undefined ? undefined : contextLengths?.get(model)) ?? contextLength ?? Number.POSITIVE_INFINITY;

function hasModel({ model, modelRef }: Need, { models, hasForeignModels }: Declared): boolean {
  if (!models || (hasForeignModels && modelRef !== undefined)) return false;
  return (modelRef !== undefined && models.includes(modelRef)) || models.includes(model as string);
}

/** Notes whether a backend had the model of a lane and no longer has it. */
export function noteFormer(
  { need, formerBackends }: { readonly need: Need; readonly formerBackends: Set<string> },
  { name, formerModels }: BackendInfo,
): void {
  if (need.model !== undefined && formerModels?.includes(need.model)) formerBackends.add(name);
  else formerBackends.delete(name);
}
