/** What a job becomes by the model that it names: checked against the catalog, and with the name resolved. */
import { OrchdError, type Reason } from '../../model/errors.ts';
import type { ModelRecord } from '../../model/records.ts';
import type { State } from '../state/state.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

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
    if (submission.spec.type === 'inference' && !isOffered(turn, name)) throw notFound(name);
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
  const { pools } = turn.state;
  if (isOffered(turn, model.ref) || isOffered(turn, model.id)) return;
  if (pools.fitsNowhere(model.vramBytes)) {
    throw new OrchdError(
      'INSUFFICIENT_VRAM',
      `no device is large enough for "${model.id}", which needs ${model.vramBytes} bytes`,
      { retriable: false },
    );
  }
  if (submission.spec.priority !== 'interactive' || pools.someUp()) return;
  throw new OrchdError('POOL_UNAVAILABLE', `no pool that could run "${model.id}" can be reached`);
}

/** Whether some backend that is known has it. A worker that takes nothing new is as good as none. */
function isOffered({ fleet }: Turn, name: string): boolean {
  for (const { info, closed } of fleet.backends.values()) {
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
