/** The models that can be asked for: kept by operators, looked up when a job is admitted. */
import { OrchdError, type Reason } from '../../model/errors.ts';
import type { ModelRecord, Verification } from '../../model/records.ts';
import type { Submission } from '../events.ts';
import type { State } from '../state/state.ts';
import type { Turn } from '../turn.ts';
import { fitsNowhere } from './room.ts';

/** What an operator says of a model. */
export type Registration = Omit<ModelRecord, 'v' | 'state' | 'verified' | 'createdAt' | 'updatedAt'>;

/** Registers a model, or replaces what was said of it; its state stays. */
export function register(turn: Turn, model: Registration): ModelRecord {
  const { catalog } = turn.state;
  const known = catalog.get(model.id);
  for (const name of [model.id, ...model.aliases]) {
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

/** Catalog files are imported at every start: what says nothing new is not written again. */
const isSame = (known: ModelRecord, model: Registration): boolean =>
  (Object.keys(model) as (keyof Registration)[]).every(
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

export function modelOf(state: State, id: string): ModelRecord {
  const record = state.catalog.find(id);
  if (!record) throw notFound(id);
  return record;
}

const notFound = (name: string): OrchdError =>
  new OrchdError('MODEL_NOT_FOUND', `there is no model "${name}"`, { field: 'model' });

const reject = (reason: Reason, message: string): OrchdError =>
  new OrchdError('ADMISSION_REJECT', message, { reason, field: 'model' });

/** What a job becomes by the model that it names: checked, and with the name resolved. */
export function resolveModel(turn: Turn, submission: Submission): Submission {
  const name = submission.spec.model ?? onlyModel(turn.state, submission);
  if (name === undefined) return submission;
  const model = turn.state.catalog.find(name);
  if (!model) {
    if (submission.spec.type === 'inference' && !isOffered(turn.state, name)) throw notFound(name);
    return withoutContext(submission);
  }
  checkModel(turn, model);
  checkContext(model, submission.contextTokens);
  checkCapacity(turn, model, submission);
  return {
    ...submission,
    // One name from here on, whichever it was asked for by: jobs for one model wait in one lane.
    spec: {
      ...submission.spec,
      model: model.id,
      timeout_ms: submission.spec.timeout_ms ?? turn.settings.pools.workerTimeoutMs,
    },
    modelRef: model.ref,
    contextTokens: contextBucket(submission.contextTokens, model.contextLength),
  };
}

/** Who names no model means the only one that there is. */
function onlyModel({ catalog }: State, { spec: { type, backend } }: Submission): string | undefined {
  if (catalog.size !== 1 || type !== 'inference' || (backend !== undefined && backend !== 'worker'))
    return undefined;
  const [model] = catalog.values();
  return model?.state === 'active' ? model.id : undefined;
}

/** How long the context of a model is that the catalog does not know, nobody can judge. */
const withoutContext = (submission: Submission): Submission =>
  submission.contextTokens === undefined ? submission : { ...submission, contextTokens: undefined };

function checkModel(turn: Turn, model: ModelRecord): void {
  if (model.state === 'retired') throw reject('model_retired', `the model "${model.id}" is retired`);
  if (model.verified?.verdict === 'fail' && turn.settings.pools.verifyPolicy === 'block') {
    throw new OrchdError('MODEL_UNVERIFIED', undefined, { field: 'model' });
  }
}

function checkContext(model: ModelRecord, tokens: number | undefined): void {
  if (tokens === undefined || tokens <= model.contextLength) return;
  throw reject(
    'context_length',
    `the job needs about ${tokens} tokens of context; "${model.id}" has ${model.contextLength}`,
  );
}

/**
 * Where nothing can ever run it, waiting would be for nothing; where no pool can be reached, a person is told at
 * once, and batch work waits.
 */
function checkCapacity(turn: Turn, model: ModelRecord, submission: Submission): void {
  const { state } = turn;
  if (isOffered(state, model.ref) || isOffered(state, model.id)) return;
  if (fitsNowhere(state, model.vramBytes)) {
    throw new OrchdError(
      'INSUFFICIENT_VRAM',
      `no device is large enough for "${model.id}", which needs ${model.vramBytes} bytes`,
      { retriable: false },
    );
  }
  if (submission.spec.priority !== 'interactive' || state.pools.someUp()) return;
  throw new OrchdError('POOL_UNAVAILABLE', `no pool that could run "${model.id}" can be reached`);
}

/** Whether some backend that is known has it. A worker that takes nothing new is as good as none. */
function isOffered(state: State, name: string): boolean {
  for (const { info, closed } of state.fleet.backends.values()) {
    if (info.models?.includes(name) && !(info.home && closed)) return true;
  }
  return false;
}

const SMALLEST_BUCKET = 4096;

/** Rounded up, so that jobs of about the same length wait in one lane. Small ones fit anywhere. */
function contextBucket(tokens: number | undefined, longest: number): number | undefined {
  if (tokens === undefined || tokens <= SMALLEST_BUCKET) return undefined;
  let bucket = SMALLEST_BUCKET;
  while (bucket < tokens) bucket *= 2;
  return Math.min(bucket, longest);
}
