/** Registers models in the catalog and changes them. */
import { OrchdError } from '../../model/errors.ts';
import type { ModelRecord, ModelRegistration, Verification } from '../../model/records.ts';
import { modelOf } from '../admission/model.ts';
import type { Turn } from '../turn.ts';

/** Registers a model or replaces its registration; its state is kept. */
export function register(turn: Turn, given: ModelRegistration): ModelRecord {
  const { catalog } = turn.state;
  const known = catalog.get(given.id);
  const model = withLearnedSize(given, known);
  for (const name of [model.id, ...model.aliases]) {
    if (turn.state.tables.route.get(name))
      throw new OrchdError('ILLEGAL_STATE', `"${name}" is the name of a route`, { field: 'aliases' });
    const other = catalog.find(name);
    if (!other || other.id === model.id) continue;
    throw new OrchdError('ILLEGAL_STATE', `"${name}" is the name of the model "${other.id}"`, {
      field: 'aliases',
    });
  }
  if (known && isSame(known, model)) return known;
  const isSameFile = known?.ref === model.ref && known.sha256 === model.sha256;
  const record: ModelRecord = {
    ...model,
    v: 1,
    state: known?.state ?? 'active',
    verified: isSameFile ? known.verified : undefined,
    createdAt: known?.createdAt ?? turn.now,
    updatedAt: turn.now,
  };
  turn.put('model', model.id, record, known ? 'changed' : 'registered');
  turn.state.pools.changed = true;
  return record;
}

/**
 * An estimate does not replace what workers of the same model were measured to use: catalog files are imported at every
 * start, and would bring the estimate back.
 */
function withLearnedSize(model: ModelRegistration, known: ModelRecord | undefined): ModelRegistration {
  if (!known?.vramGuessed || !model.vramGuessed || model.vramBytes >= known.vramBytes) return model;
  const isSameWork =
    known.ref === model.ref &&
    known.sizeBytes === model.sizeBytes &&
    known.slots === model.slots &&
    known.contextLength === model.contextLength;
  return isSameWork ? { ...model, vramBytes: known.vramBytes } : model;
}

/** Catalog files are imported at every start: an unchanged registration is not written again. */
const isSame = (known: ModelRecord, model: ModelRegistration): boolean =>
  (Object.keys(model) as (keyof ModelRegistration)[]).every(
    (field) => JSON.stringify(known[field]) === JSON.stringify(model[field]),
  );

export function setModelState(turn: Turn, id: string, state: ModelRecord['state']): ModelRecord {
  const record = modelOf(turn.state, id);
  if (record.state === state) return record;
  const after = { ...record, state, updatedAt: turn.now };
  turn.put('model', record.id, after, state);
  return after;
}

export function noteVerified(turn: Turn, id: string, verified: Verification): ModelRecord {
  const record = modelOf(turn.state, id);
  const after = { ...record, verified, updatedAt: turn.now };
  turn.put('model', record.id, after, { is: 'verified', verdict: verified.verdict });
  return after;
}
