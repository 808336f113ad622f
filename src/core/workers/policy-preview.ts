/** Whom a policy would hit if it was set now. Nothing is changed. */
import type { LimitSpec } from '../../model/limit-records.ts';
import type { PolicyValues } from '../../model/policy.ts';
import { Gates } from '../limits/gates.ts';
import { workerBackend } from '../ports/pools.ts';
import { modelOf } from '../queue/queue.ts';
import { poolsOf } from '../scheduling/pool-limits.ts';
import { type EngineSettings, settingsWith } from '../settings.ts';
import type { EngineView } from '../turn.ts';
import { excessWorkers, type SizeView, Wishes } from './ceiling.ts';
import { lastUse } from './evict.ts';

/** Names listed of each kind; there may be any number. */
const MAX_LISTED = 100;

export interface PolicyPreview {
  /** New jobs would be refused, or treated as `on_depth` says, at once. */
  readonly closesQueue: boolean;
  /** No worker would be started on a GPU. */
  readonly closesMemory: boolean;
  /** New jobs of these agents would be refused; one of another tenant than the default as TENANT~AGENT. */
  readonly agents: readonly string[];
  /** Workers that would be stopped, since they have been idle for long enough. */
  readonly idleWorkers: readonly string[];
  /** Idle workers that would be stopped, since there would be too many. */
  readonly excessWorkers: readonly string[];
  /** Worker pools that would be told another number of workers. */
  readonly workerPools: readonly WishChange[];
  /** Scopes in which more jobs run than the limits would let run; those go on. */
  readonly scopes: readonly { readonly scope: string; readonly running: number; readonly limit: number }[];
}

interface WishChange {
  readonly id: string;
  readonly before: number;
  readonly wished: number;
}

export function previewPolicy(
  view: EngineView & SizeView,
  configured: EngineSettings,
  values: PolicyValues,
  limits: readonly LimitSpec[] | undefined,
  now: number,
): PolicyPreview {
  const settings = settingsWith(configured, values);
  const { gates = {}, pools } = settings;
  const { state } = view;
  const { queueDepth, gpuMemory, agentWaiting } = gates;
  const { used, total } = state.pools.memory();
  return {
    closesQueue: queueDepth !== undefined && state.counts.queued > queueDepth.closeAbove,
    closesMemory: gpuMemory !== undefined && total > 0 && (used / total) * 100 > gpuMemory.closeAbove,
    agents: agentWaiting ? agentsFrom(view, agentWaiting.high) : [],
    idleWorkers: idleFor(view, pools.idleUnloadMs, now),
    excessWorkers: excessWorkers({ state, queue: view.queue, settings })
      .slice(0, MAX_LISTED)
      .map(({ id }) => id),
    workerPools: wishesChanged(view, { state, settings }),
    scopes: limits ? fullScopes(view, limits, now) : [],
  };
}

function agentsFrom({ state }: EngineView, high: number): string[] {
  const found: string[] = [];
  for (const [agent, jobs] of state.gates.agents()) if (jobs >= high) found.push(agent);
  return found.sort().slice(0, MAX_LISTED);
}

function idleFor({ state, queue: { fleet } }: EngineView, idleMs: number, now: number): string[] {
  const found: string[] = [];
  for (const [id, record] of state.workers.entries()) {
    const name = workerBackend(record.pool, id);
    const backend = fleet.backends.get(name);
    if (record.state !== 'running' || !backend || fleet.usedSlots(name) > 0) continue;
    const isWanted = backend.lanes.some((lane) => lane.size > 0);
    if (!isWanted && now - Math.max(lastUse({ record, backend }), record.at) >= idleMs) found.push(id);
  }
  return found.slice(0, MAX_LISTED);
}

function wishesChanged(now: SizeView, then: SizeView): WishChange[] {
  const found: WishChange[] = [];
  const [before, after] = [new Wishes(now), new Wishes(then)];
  for (const [id, record] of now.state.tables.worker_pool.entries()) {
    const change = { id, before: before.of(id, record), wished: after.of(id, record) };
    if (change.before !== change.wished && found.push(change) === MAX_LISTED) break;
  }
  return found;
}

function fullScopes(view: EngineView, limits: readonly LimitSpec[], now: number): PolicyPreview['scopes'] {
  const { state } = view;
  const gates = new Gates();
  gates.configure(limits, () => undefined);
  for (const entry of state.open.values()) {
    const seat = gates.seat(entry.open?.backend ?? '', now);
    const info = view.queue.fleet.backends.get(entry.open?.backend ?? '')?.info;
    const pools = info ? poolsOf(state, info).flatMap((pool) => gates.pool(pool, now) ?? []) : [];
    gates.run([...gates.of(entry.ask, modelOf(entry), now), ...(seat ? [seat] : []), ...pools], 1);
  }
  const full = [...gates.values()].filter(({ room }) => room < 0);
  return full
    .map(({ name, running, limit }) => ({ scope: name, running, limit: limit.running ?? 0 }))
    .slice(0, MAX_LISTED);
}
