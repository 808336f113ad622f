/** Builds the views of models, sessions, pools, backends and leases for the HTTP API. */

import type { ReportedWorker } from '../core/ports/pools.ts';
import { workerBackend } from '../core/ports/pools.ts';
import type { BackendEntry } from '../core/queue/fleet.ts';
import type { HeldLease } from '../core/state/leases.ts';
import type { PoolEntry } from '../core/state/pools.ts';
import type { State } from '../core/state/state.ts';
import type { EngineView } from '../core/turn.ts';
import { leasedOn } from '../core/workers/lease-device.ts';
import { workerReasonText } from '../model/causes.ts';
import type { ModelView } from '../model/http/catalog.ts';
import type { LeaseView } from '../model/http/leases.ts';
import type { BackendView } from '../model/http/meta.ts';
import type { PoolView, PoolWorker } from '../model/http/pools.ts';
import { MAX_LISTED_JOBS, type SessionView } from '../model/http/sessions.ts';
import type { SeatPause } from '../model/limit-records.ts';
import { jobOfToken, type ModelRecord } from '../model/records.ts';
import type { SessionRecord } from '../model/session-record.ts';

export const modelView = (model: ModelRecord): ModelView => ({
  model_id: model.id,
  name: model.name,
  model_ref: model.ref,
  aliases: model.aliases,
  size_bytes: model.sizeBytes,
  vram_bytes: model.vramBytes,
  context_length: model.contextLength,
  lifecycle_state: model.state === 'active' ? 'Active' : 'Retired',
  slots: model.slots ?? null,
  sha256: model.sha256 ?? null,
  signed: model.signature !== undefined,
  verified: model.verified ? { ...model.verified } : null,
  created_at: model.createdAt,
  updated_at: model.updatedAt,
});

export function sessionView(state: State, session: SessionRecord, isArchived = false): SessionView {
  const { tenant, id } = session;
  const live = state.roster.inSession(tenant, id);
  const jobs: SessionView['jobs'][number][] = [];
  for (const { ask, job } of live) {
    if (jobs.push({ job_id: ask.id, state: job.state }) === MAX_LISTED_JOBS) break;
  }
  return {
    session_id: id,
    created_at: session.createdAt,
    used_at: session.usedAt,
    turns: session.turns,
    tokens_used: session.tokensUsed,
    tokens_reserved: state.roster.reservedTokens(tenant, id),
    token_budget: session.tokenBudget ?? null,
    backend: session.threads?.at(-1)?.backend ?? null,
    jobs,
    live_jobs: live.size,
    messages: session.messages?.values ?? 0,
    metadata: {},
    ...(isArchived && { archived: true }),
  };
}

/** `address`: that of its manager, if it is known. */
export function poolView(view: EngineView, pool: PoolEntry, address?: string): PoolView {
  const { state } = view;
  const { report } = pool;
  const order = state.tables.pool.get(report.id);
  return {
    pool_id: report.id,
    status: statusOf(pool, order?.draining ?? false),
    address: address ?? null,
    region: report.region ?? null,
    heard_at: pool.reportedAt,
    ...(pool.problem !== undefined && { problem: pool.problem }),
    draining: order?.draining ? { by: order.by, deadline: order.drainBy ?? null } : null,
    gpus: report.devices.map(({ id, totalBytes, availableBytes, ok, reason }) => ({
      id,
      total_vram: totalBytes,
      available_vram: availableBytes,
      leased_vram: leasedOn(view, report.id, id),
      status: ok ? 'ok' : 'error',
      reason: reason ?? null,
    })),
    workers: report.workers.map((worker) => workerView(view, report.id, worker)),
  };
}

function statusOf(pool: PoolEntry, draining: boolean): PoolView['status'] {
  if (!pool.up) return 'unreachable';
  if (draining) return 'draining';
  const isDegraded =
    pool.report.devices.some(({ ok }) => !ok) ||
    pool.report.workers.some(({ status }) => status === 'failed');
  return isDegraded ? 'degraded' : 'ok';
}

/** A worker with the status that the brain has decided: `draining` even if its pool does not report that yet. */
function workerView({ state, queue }: EngineView, pool: string, worker: ReportedWorker): PoolWorker {
  const record = state.workers.get(worker.id);
  const active = queue.fleet.usedSlots(workerBackend(pool, worker.id));
  const isDraining = record?.state === 'draining' || record?.state === 'stopping';
  const isReady = worker.status === 'ready' || worker.status === 'busy';
  return {
    worker_id: worker.id,
    model_ref: worker.modelRef,
    gpu: worker.device,
    vram_used: worker.vramBytes,
    status: isReady ? (isDraining ? 'draining' : active > 0 ? 'busy' : 'ready') : worker.status,
    active,
    slots: worker.slots,
    why: record ? workerReasonText(record.why) : null,
    unusable: worker.unusable ?? null,
    error: worker.error ?? null,
  };
}

/** Why a backend gets no work, and since when it is paused. */
export interface BackendTrouble {
  readonly problem?: string | undefined;
  readonly paused?: SeatPause | undefined;
}

const PAUSED = 'paused: its provider has billed more than its bound';

export const backendView = (
  { info, up, away, used, blockedUntil, blockedFor }: BackendEntry,
  { problem = info.outage, paused }: BackendTrouble = {},
): BackendView => ({
  name: info.name,
  kind: info.kind,
  slots: info.slots,
  used,
  up: up && !away && info.outage === undefined,
  types: info.types ?? null,
  models: info.models ?? null,
  labels: info.labels,
  keeps_results: info.keepsResults,
  ...((problem !== undefined || paused) && { problem: problem ?? PAUSED }),
  ...(blockedFor !== undefined && { rests: { until: blockedUntil, why: blockedFor } }),
  ...(paused && { paused: { at: paused.at, job_id: jobOfToken(paused.token), excess: paused.excess } }),
});

export interface ModelName {
  readonly id: string;
  /** When the model was registered; undefined for one that only a backend offers. */
  readonly createdAt: number | undefined;
}

export function modelNames({ state: { catalog, tables }, queue: { fleet } }: EngineView): ModelName[] {
  const names = new Map<string, number | undefined>();
  for (const { id, aliases, state, createdAt } of catalog.values()) {
    if (state !== 'active') continue;
    for (const name of [id, ...aliases]) names.set(name, createdAt);
  }
  for (const { info } of fleet.backends.values()) {
    if (info.types && !info.types.includes('inference')) continue;
    for (const name of info.models ?? []) if (!catalog.find(name)) names.set(name, undefined);
  }
  for (const { id, at } of tables.route.values()) names.set(id, at);
  return Array.from(names, ([id, createdAt]) => ({ id, createdAt }));
}

export const leaseView = ({ id, record, until }: HeldLease): LeaseView => ({
  token: id,
  tenant: record.tenant,
  agent: record.agent,
  mode: record.gpuIndex === undefined ? 'cpu' : 'gpu',
  pool: record.pool ?? null,
  gpu_index: record.gpuIndex ?? null,
  attempt: record.attempt ?? null,
  min_memory_mb: record.minMemoryMb,
  fence: record.fence,
  granted_at: record.grantedAt,
  expires_at: Number.isFinite(until) ? until : null,
});
