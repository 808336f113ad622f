/** Models, sessions and pools in the words of the HTTP surface. */
import { backendOf, type PoolEntry, type ReportedWorker } from '../core/state/pools.ts';
import type { State } from '../core/state/state.ts';
import { workerReasonText } from '../model/causes.ts';
import type { ModelRecord, SessionRecord } from '../model/records.ts';

export interface ModelView {
  readonly model_id: string;
  readonly name: string;
  readonly model_ref: string;
  readonly aliases: readonly string[];
  readonly size_bytes: number;
  readonly vram_bytes: number;
  readonly context_length: number;
  readonly lifecycle_state: 'Active' | 'Retired';
  readonly slots: number | null;
  readonly sha256: string | null;
  readonly signed: boolean;
  readonly verified: { verdict: string; at: number; pool: string; sha256: string } | null;
  readonly created_at: number;
  readonly updated_at: number;
}

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

export interface SessionView {
  readonly session_id: string;
  readonly created_at: number;
  readonly used_at: number;
  readonly turns: number;
  readonly tokens_used: number;
  readonly tokens_reserved: number;
  readonly token_budget: number | null;
  /** The worker that has its context. */
  readonly backend: string | null;
  readonly jobs: readonly { job_id: string; state: string }[];
}

export function sessionView(state: State, session: SessionRecord): SessionView {
  const { tenant, id } = session;
  const jobs = [...state.roster.inSession(tenant, id)];
  return {
    session_id: id,
    created_at: session.createdAt,
    used_at: session.usedAt,
    turns: session.turns,
    tokens_used: session.tokensUsed,
    tokens_reserved: state.roster.reserved(tenant, id),
    token_budget: session.tokenBudget ?? null,
    backend: session.backend ?? null,
    jobs: jobs.map(({ ask, job }) => ({ job_id: ask.id, state: job.state })),
  };
}

export interface PoolView {
  readonly pool_id: string;
  readonly status: 'ok' | 'unreachable' | 'draining' | 'degraded';
  readonly region: string | null;
  readonly heard_at: number;
  readonly draining: { by: string; deadline: number | null } | null;
  readonly gpus: readonly object[];
  readonly workers: readonly object[];
}

export function poolView(state: State, pool: PoolEntry): PoolView {
  const { report } = pool;
  const order = state.tables.pool.get(report.id);
  return {
    pool_id: report.id,
    status: statusOf(pool, order?.draining ?? false),
    region: report.region ?? null,
    heard_at: pool.heardAt,
    draining: order?.draining ? { by: order.by, deadline: order.drainBy ?? null } : null,
    gpus: report.devices.map(({ id, totalBytes, availableBytes, ok, reason }) => ({
      id,
      total_vram: totalBytes,
      available_vram: availableBytes,
      status: ok ? 'ok' : 'error',
      reason: reason ?? null,
    })),
    workers: report.workers.map((worker) => workerView(state, report.id, worker)),
  };
}

function statusOf(pool: PoolEntry, draining: boolean): PoolView['status'] {
  if (!pool.up) return 'unreachable';
  if (draining) return 'draining';
  const isHurt =
    pool.report.devices.some(({ ok }) => !ok) ||
    pool.report.workers.some(({ status }) => status === 'failed');
  return isHurt ? 'degraded' : 'ok';
}

/** Its status as the brain sees it: one that is to go is draining, whatever its pool says yet. */
function workerView(state: State, pool: string, worker: ReportedWorker): object {
  const record = state.workers.get(worker.id);
  const active = state.fleet.usedSlots(backendOf(pool, worker.id));
  const isLeaving = record?.state === 'draining' || record?.state === 'stopping';
  const isReady = worker.status === 'ready' || worker.status === 'busy';
  return {
    worker_id: worker.id,
    model_ref: worker.modelRef,
    gpu: worker.device,
    vram_used: worker.vramBytes,
    status: isReady ? (isLeaving ? 'draining' : active > 0 ? 'busy' : 'ready') : worker.status,
    active,
    slots: worker.slots,
    why: record ? workerReasonText(record.why) : null,
    unusable: worker.unusable ?? null,
    error: worker.error ?? null,
  };
}
