/** Checks the model of a submission against the catalog and resolves its name. */
import { didYouMean } from '../../kit/nearest.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Reason } from '../../model/reasons.ts';
import type { ModelRecord } from '../../model/records.ts';
import { contextBucket, longestContext } from '../scheduling/model-need.ts';
import { OUTAGE_GRACE_MS } from '../scheduling/routing.ts';
import type { State } from '../state/state.ts';
import type { Turn } from '../turn.ts';
import { checkAllowed } from './allowed-models.ts';
import type { Submission } from './submission.ts';

export function modelOf(state: State, id: string): ModelRecord {
  const record = state.catalog.find(id);
  if (!record) throw notFound(id, catalogNames(state));
  return record;
}

const notFound = (name: string, known: readonly string[], formerly = ''): OrchdError =>
  new OrchdError('MODEL_NOT_FOUND', `there is no model "${name}"${formerly || didYouMean(name, known)}`, {
    field: 'model',
  });

const catalogNames = ({ catalog }: State): string[] =>
  [...catalog.values()].flatMap(({ id, aliases }) => [id, ...aliases]);

const reject = (reason: Reason, message: string): OrchdError =>
  new OrchdError('ADMISSION_REJECT', message, { reason, field: 'model' });

/** The submission with its model resolved; throws if the model is unknown, or cannot run the job. */
export function resolveModel(turn: Turn, submission: Submission): Submission {
  const name = submission.spec.model ?? onlyModel(turn, submission);
  checkAllowed(turn, name, submission.allowedModels);
  if (name === undefined) return withoutContext(submission);
  const model = turn.state.catalog.find(name);
  if (!model) {
    const mayWait = submission.spec.type !== 'inference' || mayCome(turn, submission);
    if (!mayWait && !isOffered(turn, name)) throw notFound(name, offeredModels(turn), formerly(turn, name));
    const { spec } = submission;
    const named = spec.model === undefined ? { ...submission, spec: { ...spec, model: name } } : submission;
    return withForeignModel(turn, named, name);
  }
  checkModel(turn, model);
  checkContext(model.id, model.contextLength, submission.contextTokens);
  checkCapacity(turn, model, submission);
  const { spec } = withTimeout(turn, submission);
  return {
    ...submission,
    // The model's id replaces any alias, so that all jobs for a model wait in one lane.
    spec: { ...spec, model: model.id },
    modelRef: model.ref,
    contextTokens: contextBucket(submission.contextTokens, model.contextLength),
  };
}

/** The submission with a timeout, by default that of the settings, unless it has one of its own. */
function withTimeout(
  { settings }: Turn,
  submission: Submission,
  timeoutMs = settings.pools.workerTimeoutMs,
): Submission {
  const { spec } = submission;
  return { ...submission, spec: { ...spec, timeout_ms: spec.timeout_ms ?? timeoutMs } };
}

/** The model of an inference job that names none: the only one in the catalog, or the only one of all upstreams. */
function onlyModel(turn: Turn, { spec: { type, backend } }: Submission): string | undefined {
  const { catalog } = turn.state;
  if (type !== 'inference') return undefined;
  if (catalog.size === 0 && backend === undefined) return onlyForeignModel(turn);
  if (catalog.size !== 1 || (backend !== undefined && backend !== 'worker')) return undefined;
  const [model] = catalog.values();
  return model?.state === 'active' ? model.id : undefined;
}

function onlyForeignModel({ fleet }: Turn): string | undefined {
  const names = new Set<string>();
  for (const { info } of fleet.backends.values()) {
    if (info.hasForeignModels) for (const name of info.models ?? []) names.add(name);
    // A job without a model is for the backends that take one.
    else if (!info.home && (info.types === undefined || info.types.includes('inference'))) return undefined;
    if (names.size > 1) return undefined;
  }
  return [...names][0];
}

/** The submission for a model that backends have and the catalog does not know. */
function withForeignModel(turn: Turn, submission: Submission, name: string): Submission {
  const timed = isOnWorker(turn, name)
    ? withTimeout(turn, submission, longestTimeout(turn, name))
    : submission;
  checkOutage(turn, name, submission);
  const longest = longestContext(turn.fleet, name);
  if (longest === undefined) return withoutContext(timed);
  checkContext(name, longest, submission.contextTokens);
  return { ...timed, contextTokens: contextBucket(submission.contextTokens, longest) };
}

/** The longest timeout of the backends that have a model, since it is not known yet which of them will run the job. */
function longestTimeout({ fleet, settings }: Turn, name: string): number {
  let longest = 0;
  for (const { info } of fleet.backends.values())
    if (info.models?.includes(name))
      longest = Math.max(longest, info.timeoutMs ?? settings.pools.workerTimeoutMs);
  return longest;
}

/** People do not wait for a backend that has been away for long, or rests for long; batch jobs do. */
function checkOutage({ fleet, now }: Turn, name: string, { spec, unrunnable }: Submission): void {
  if (spec.priority !== 'interactive' || unrunnable === 'wait') return;
  let reason: string | undefined;
  let retryAfterMs = Number.POSITIVE_INFINITY;
  for (const backend of fleet.backends.values()) {
    const { info, outageSince, blockedUntil, blockedFor, turnedAway } = backend;
    if (!info.models?.includes(name)) continue;
    const isAway = outageSince !== undefined && now - outageSince >= OUTAGE_GRACE_MS;
    const rests = turnedAway > 0 && blockedUntil - now > OUTAGE_GRACE_MS;
    if (!isAway && !rests) return;
    if (rests) retryAfterMs = Math.min(retryAfterMs, blockedUntil - now);
    const why = isAway ? info.outage : `until ${new Date(blockedUntil).toISOString()} (${blockedFor})`;
    reason ??= `"${info.name}" has the model and cannot be used: ${why}`;
  }
  if (reason === undefined) return;
  const wait = Number.isFinite(retryAfterMs) ? { retryAfterMs: Math.ceil(retryAfterMs) } : {};
  throw new OrchdError('UPSTREAM_UNAVAILABLE', reason, wait);
}

/** Whether the job waits for a model that nobody has yet, and that an upstream may have later. */
function mayCome({ fleet }: Turn, { unrunnable }: Submission): boolean {
  if (unrunnable !== 'wait') return false;
  for (const { info } of fleet.backends.values()) if (info.hasForeignModels) return true;
  return false;
}

/** Names a backend that had the model and no longer has it. */
function formerly({ fleet }: Turn, name: string): string {
  for (const { info } of fleet.backends.values())
    if (info.formerModels?.includes(name))
      return `: "${info.name}" had it, and no longer has it${info.outage === undefined ? '' : ` (${info.outage})`}`;
  return '';
}

/** Without a model of the catalog the context length is unknown, so it must not constrain the job. */
const withoutContext = (submission: Submission): Submission =>
  submission.contextTokens === undefined ? submission : { ...submission, contextTokens: undefined };

function checkModel(turn: Turn, model: ModelRecord): void {
  if (model.state === 'retired') throw reject('model_retired', `the model "${model.id}" is retired`);
  const base = model.base === undefined ? undefined : turn.state.catalog.get(model.base);
  // A model that was made of another one has the file of that one, unless that has another one by now.
  const failed = base && model.ref.startsWith(`${base.ref}::`) ? [model, base] : [model];
  const isFailed = failed.some(({ verified }) => verified?.verdict === 'fail');
  if (isFailed && turn.settings.pools.verifyPolicy === 'block') {
    throw new OrchdError('MODEL_UNVERIFIED', undefined, { field: 'model' });
  }
}

function checkContext(model: string, longest: number, tokens: number | undefined): void {
  if (tokens === undefined || tokens <= longest) return;
  throw reject(
    'context_length',
    `the job needs about ${tokens} tokens of context; "${model}" has ${longest}`,
  );
}

/**
 * Refuses a job that no device can ever run. While no pool can be reached, an interactive job is refused at once and a
 * batch job waits.
 */
function checkCapacity(turn: Turn, model: ModelRecord, submission: Submission): void {
  const { pools } = turn.state;
  if (isOffered(turn, model.ref, 'own') || isOffered(turn, model.id, 'own')) return;
  if (pools.fitsNowhere(model.vramBytes)) {
    throw new OrchdError(
      'INSUFFICIENT_VRAM',
      `no device is large enough for "${model.id}", which needs ${model.vramBytes} bytes`,
      { retriable: false },
    );
  }
  if (submission.spec.priority !== 'interactive' || pools.isAnyUp()) return;
  throw new OrchdError('POOL_UNAVAILABLE', `no pool that could run "${model.id}" can be reached`);
}

/** The names under which models can be asked for. */
function offeredModels({ state, fleet }: Turn): string[] {
  const models = catalogNames(state);
  for (const { info } of fleet.backends.values()) if (!info.home) models.push(...(info.models ?? []));
  return models;
}

/** Whether a backend has this model, with `own` one that is no upstream. A worker that takes no new jobs does not count. */
function isOffered({ fleet }: Turn, name: string, whose?: 'own'): boolean {
  for (const { info, closed } of fleet.backends.values()) {
    if (whose === 'own' && info.hasForeignModels) continue;
    if (info.models?.includes(name) && !(info.home && closed)) return true;
  }
  return false;
}

/** Whether a worker or an upstream has this model, though the catalog does not know it. */
function isOnWorker({ fleet }: Turn, name: string): boolean {
  for (const { info } of fleet.backends.values())
    if ((info.home || info.hasForeignModels) && info.models?.includes(name)) return true;
  return false;
}
