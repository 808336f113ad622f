/** The answer of `GET /v2/meta/status`: running and held jobs, models and limits that are near, at one instant. */
import { isScopeOf, ownScope, writtenScope } from '../core/limits/limit.ts';
import type { BackendEntry } from '../core/queue/fleet.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { EngineView } from '../core/turn.ts';
import {
  MAX_STATUS_JOBS,
  MAX_STATUS_LIMITS,
  NEAR_SHARE,
  type NearLimit,
  type Status,
  type StatusJob,
  type StatusModel,
} from '../model/http/status.ts';
import { DEFAULT_TENANT, type ModelRecord } from '../model/records.ts';

export type StatusView = Pick<Status, 'jobs' | 'running' | 'held' | 'models' | 'limits'>;

/** `isDurable`: jobs whose last change is not durable yet are not listed; they are counted. */
export function statusView(
  view: EngineView,
  tenant: string,
  now: number,
  isDurable: (entry: JobEntry) => boolean,
): StatusView {
  const { state } = view;
  const running: StatusJob[] = [];
  const held: StatusJob[] = [];
  const counts = { claimed: 0, running: 0, stale: 0 };
  for (const entry of state.open.values()) {
    const { state: is } = entry.job;
    // An ended job may have an attempt that its backend has not confirmed yet.
    if (entry.ask.tenant !== tenant || !isCounted(is)) continue;
    counts[is]++;
    const list = is === 'stale' ? held : running;
    if (list.length < MAX_STATUS_JOBS && isDurable(entry)) list.push(jobOf(entry));
  }
  const isOperator = tenant === DEFAULT_TENANT;
  const { queued, claimed, running: run, waiting, stale } = state.counts;
  return {
    jobs: isOperator
      ? { queued, claimed, running: run, waiting, stale }
      : {
          queued: state.queuedByTenant.of(tenant).jobs,
          waiting: state.waitingByTenant.of(tenant).jobs,
          ...counts,
        },
    running,
    held,
    models: modelsOf(view).map((model) => (isOperator ? model : withoutUse(model))),
    limits: nearLimits(view, tenant, now),
  };
}

const isCounted = (state: string): state is 'claimed' | 'running' | 'stale' =>
  state === 'claimed' || state === 'running' || state === 'stale';

function jobOf({ ask, job, open }: JobEntry): StatusJob {
  const { type, priority, model } = ask.spec;
  return {
    job_id: ask.id,
    type,
    priority,
    ...(model !== undefined && { model }),
    backend: open?.backend ?? '',
    since: open?.acceptedAt ?? open?.at ?? job.startedAt ?? ask.createdAt,
  };
}

const withoutUse = ({ used: _, waiting: __, ...model }: StatusModel): StatusModel => model;

interface Use {
  workers: number;
  slots: number;
  used: number;
  waiting: number;
  contextLength: number | undefined;
  /** Names of the upstreams that offer it. */
  upstreams: string[];
  /** Why upstreams that offer it cannot be used. */
  outages: string[];
}

/** The models of the catalog, and those that only a backend offers. */
function modelsOf(view: EngineView): StatusModel[] {
  const { catalog } = view.state;
  const uses = usesOf(view);
  const models: StatusModel[] = [];
  for (const model of catalog.values()) {
    const use = uses.get(model.id);
    uses.delete(model.id);
    models.push(catalogModel(view, model, use));
  }
  for (const [name, use] of uses) models.push(backendModel(name, use));
  return models.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The slots, workers and waiting jobs of each model, by its id in the catalog or else by the name that its backend gives. */
function usesOf({ state, queue }: EngineView): Map<string, Use> {
  const uses = new Map<string, Use>();
  const useOf = (name: string): Use => {
    const id = state.catalog.find(name)?.id ?? name;
    const use = uses.get(id) ?? newUse();
    uses.set(id, use);
    return use;
  };
  for (const backend of queue.fleet.backends.values())
    for (const name of backend.info.models ?? []) {
      // A model of the catalog with the name of an upstream's model is another model, and is the one that is used.
      if (backend.info.hasForeignModels && state.catalog.find(name)) continue;
      addBackend(useOf(name), name, backend);
    }
  for (const { need, size } of queue.fleet.lanes.values()) {
    const name = need.modelRef ?? need.model;
    if (name !== undefined && size > 0) useOf(name).waiting += size;
  }
  return uses;
}

const newUse = (): Use => ({
  workers: 0,
  slots: 0,
  used: 0,
  waiting: 0,
  contextLength: undefined,
  upstreams: [],
  outages: [],
});

function addBackend(use: Use, name: string, { info, up, away, closed, used }: BackendEntry): void {
  const length = info.contextLengths?.get(name);
  if (length === undefined) use.contextLength ??= info.contextLength;
  else use.contextLength = Math.max(use.contextLength ?? 0, length);
  if (info.hasForeignModels) use.upstreams.push(info.name);
  if (info.outage !== undefined) use.outages.push(`"${info.name}" cannot be used: ${info.outage}`);
  if (!up || away || closed || info.outage !== undefined) return;
  use.workers++;
  use.slots += info.slots;
  use.used += used;
}

function catalogModel({ state }: EngineView, model: ModelRecord, use: Use | undefined): StatusModel {
  const isStarting = state.workers.of(model.ref).some(([, worker]) => worker.state === 'starting');
  return {
    name: model.id,
    source: 'catalog',
    model_ref: model.ref,
    context_length: model.contextLength,
    state: catalogState(model, use, isStarting, state.pools.failedStarts.has(model.ref)),
    ...numbersOf(use),
  };
}

function catalogState(
  model: ModelRecord,
  use: Use | undefined,
  isStarting: boolean,
  hasFailed: boolean,
): StatusModel['state'] {
  if (model.state === 'retired') return 'retired';
  if ((use?.workers ?? 0) > 0) return 'ready';
  if (isStarting) return 'starting';
  return hasFailed ? 'failing' : 'idle';
}

const backendModel = (name: string, use: Use): StatusModel => ({
  name,
  source: 'backend',
  model_ref: null,
  context_length: use.contextLength ?? null,
  state: use.workers > 0 ? 'ready' : 'down',
  ...(use.workers === 0 && use.outages.length > 0 && { problem: use.outages.join('; ') }),
  ...(use.upstreams.length > 0 && { upstreams: use.upstreams }),
  ...numbersOf(use),
});

const numbersOf = (use: Use | undefined) => ({
  workers: use?.workers ?? 0,
  slots: use?.slots ?? 0,
  used: use?.used ?? 0,
  waiting: use?.waiting ?? 0,
});

/** For the default tenant all limits; for others those that they have set, and the operator's that name them. */
function nearLimits({ state, queue }: EngineView, tenant: string, now: number): NearLimit[] {
  const isVisible = (scope: string): boolean =>
    tenant === DEFAULT_TENANT ||
    isScopeOf(scope, tenant) ||
    (scope === ownScope(writtenScope(scope)) && isScopeOf(writtenScope(scope), tenant));
  const all: NearLimit[] = [...state.limiter.near(NEAR_SHARE, now), ...queue.gates.near(NEAR_SHARE, now)];
  const near = all.filter(({ scope }) => isVisible(scope));
  const share = ({ used, of }: NearLimit): number => used / of;
  return near
    .sort((a, b) => share(b) - share(a))
    .slice(0, MAX_STATUS_LIMITS)
    .map((limit) => ({ ...limit, scope: writtenScope(limit.scope) }));
}
