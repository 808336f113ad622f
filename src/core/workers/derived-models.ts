/**
 * The models of worker pools with an adapter or a variant. Each is a model of the catalog of its own, with a reference that
 * names the adapter: so no job for it runs on a worker without the adapter, and no other job on one with it.
 */
import { stableHash } from '../../kit/hash.ts';
import { type DerivedParts, derivedRef, formatModelRef, type ModelRef } from '../../model/model-ref.ts';
import type { ModelRecord } from '../../model/records.ts';
import type { Turn } from '../turn.ts';
import { setModelState } from './catalog.ts';

/** The model with these parts, as it is or would be in the catalog. Throws INVALID_PARAMS. */
export function derivedModel(turn: Turn, base: ModelRecord, parts: DerivedParts): ModelRecord {
  if (parts.adapter === undefined && parts.variant === undefined) return base;
  const ref = derivedRef(base.ref, parts);
  const text = formatModelRef(ref);
  const known = turn.state.catalog.find(text);
  if (known) return isRetired(known) ? { ...known, state: 'active', updatedAt: turn.now } : known;
  const id = freeId(turn, base, ref, text);
  const createdAt = turn.state.catalog.get(id)?.createdAt ?? turn.now;
  return {
    ...base,
    ...{ id, name: id, ref: text, aliases: [], base: base.id },
    ...{ state: 'active', verified: undefined, createdAt, updatedAt: turn.now },
  };
}

/** Writes a derived model that is not in the catalog in this form. */
export function keepDerived(turn: Turn, model: ModelRecord): void {
  const known = turn.state.catalog.get(model.id);
  if (known === model) return;
  turn.put('model', model.id, model, known ? (known.ref === model.ref ? 'active' : 'changed') : 'registered');
}

/** Retires a model that was made for a worker pool, unless another pool or a route uses it. Jobs that wait for it still run. */
export function retireUnused(turn: Turn, id: string | undefined): void {
  const { catalog, tables } = turn.state;
  const model = id === undefined ? undefined : catalog.get(id);
  if (model?.base === undefined) return;
  for (const { serves, status } of tables.worker_pool.values())
    if (serves === id && status !== 'stopped' && status !== 'evicted') return;
  for (const { steps } of tables.route.values())
    if (steps.some((step) => catalog.find(step.model)?.id === id)) return;
  setModelState(turn, model.id, 'retired');
}

/** A derived model that no pool uses any more. */
const isRetired = ({ base, state }: ModelRecord): boolean => base !== undefined && state === 'retired';

const MAX_ADAPTER_CHARS = 48;

/** The id of the base with the names of the parts; where it is taken, with a hash of the reference too. */
function freeId(turn: Turn, base: ModelRecord, { adapter, variant }: ModelRef, text: string): string {
  const { catalog, tables } = turn.state;
  const names = [
    base.id,
    ...(adapter ? [nameOf(adapter.path)] : []),
    ...(variant === undefined ? [] : [variant]),
  ];
  const id = names.join('+');
  const holder = catalog.find(id);
  const isFree = !tables.route.get(id) && (!holder || (holder.id === id && isRetired(holder)));
  return isFree ? id : `${id}-${stableHash(text).slice(0, 8)}`;
}

/** The name of a file without its folder and ending, in characters that a model may be called by. */
const nameOf = (path: string): string =>
  path
    .slice(path.lastIndexOf('/') + 1)
    .replace(/\.gguf$/i, '')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .slice(0, MAX_ADAPTER_CHARS);
