/** The policy: who sets it, and what people are shown of it. */
import { limitList, limitSpecs } from '../config/limits.ts';
import { limitsOf } from '../core/admission/quota.ts';
import type { Engine } from '../core/engine/engine.ts';
import { LimitTable } from '../core/limits/limit.ts';
import { settingsWith } from '../core/settings.ts';
import { checkPolicy, policyOf } from '../core/workers/policy.ts';
import { type PolicyPreview, previewPolicy } from '../core/workers/policy-preview.ts';
import type { PolicyRequest, PolicyValuesView, PolicyView, WrittenGates } from '../model/http/policy.ts';
import type { LimitSpec } from '../model/limit-records.ts';
import type { GateSettings, PolicyValues, WrittenMarks } from '../model/policy.ts';
import { DEFAULT_TENANT } from '../model/records.ts';
import type { BrainClock } from './brain-clock.ts';
import { Commands } from './command-order.ts';
import type { Loop } from './loop.ts';
import { whenDurable } from './when-durable.ts';

export class PolicyCommands extends Commands {
  readonly #clock: BrainClock;

  constructor(loop: Loop, engine: Engine, clock: BrainClock) {
    super(loop, engine);
    this.#clock = clock;
  }

  /** Replaces what was set at run time. Throws INVALID_PARAMS, and changes nothing, if it contradicts itself. */
  async set(request: PolicyRequest, by: string): Promise<PolicyView> {
    const { why, force = false } = request;
    const limits = request.limits && limitSpecs(request.limits);
    await this.order({ type: 'policy', order: { values: valuesOf(request), limits, by, why, force } });
    await this.loop.askUntilDone({ type: 'reserve-live' });
    return this.view();
  }

  /** Whom the policy would hit now. Refuses what `set` would refuse, and changes nothing. */
  async preview(request: PolicyRequest): Promise<PolicyView> {
    const values = valuesOf(request);
    const limits = request.limits && limitSpecs(request.limits);
    const { configured } = this.engine;
    checkPolicy(settingsWith(configured, values), limits, request.force ?? false);
    if (limits) new LimitTable(limits);
    const found = previewPolicy(this.engine, configured, values, limits, this.#clock.now());
    return { ...(await this.view()), preview: previewView(found) };
  }

  async undo(by: string, why: string): Promise<PolicyView> {
    await this.order({ type: 'undo-policy', by, why });
    await this.loop.askUntilDone({ type: 'reserve-live' });
    return this.view();
  }

  view(): Promise<PolicyView> {
    return whenDurable({ engine: this.engine, loop: this.loop }, policyView(this.engine));
  }
}

const toMs = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : Math.round(seconds * 1000);

function valuesOf(request: PolicyRequest): PolicyValues {
  const { gates, max_workers_per_model, idle_unload_sec, scale_up_wait_sec } = request;
  const { min_warm_workers_per_pool: floor, max_total_workers: ceiling } = request;
  return {
    ...(gates && { gates: marksOf(gates) }),
    ...(idle_unload_sec !== undefined && { idleUnloadMs: toMs(idle_unload_sec) }),
    ...(max_workers_per_model !== undefined && { maxWorkersPerModel: max_workers_per_model }),
    ...(floor !== undefined && { minWarmWorkersPerPool: floor }),
    ...(ceiling !== undefined && { maxTotalWorkers: ceiling }),
    ...(scale_up_wait_sec !== undefined && { scaleUpWaitMs: toMs(scale_up_wait_sec) }),
  };
}

function marksOf({
  queue_depth: queue,
  gpu_memory: memory,
  agent_waiting: agents,
}: WrittenGates): Partial<WrittenMarks> {
  return {
    ...(queue && {
      queueDepth: {
        closeAbove: queue.close_above,
        openBelow: queue.open_below ?? 0,
        onDepth: queue.on_depth ?? 'scale_up',
      },
    }),
    ...(memory && { gpuMemory: { closeAbove: memory.close_above, openBelow: memory.open_below ?? 0 } }),
    ...(agents && { agentWaiting: { high: agents.high, low: agents.low ?? 0 } }),
  };
}

/** A lower mark that was left out is shown as little as it was written. */
const lowerMark = <N extends 'open_below' | 'low'>(name: N, value: number): { readonly [K in N]?: number } =>
  (value > 0 ? { [name]: value } : {}) as { readonly [K in N]?: number };

function gatesView({ queueDepth, gpuMemory, agentWaiting }: GateSettings): WrittenGates {
  return {
    ...(queueDepth && {
      queue_depth: {
        close_above: queueDepth.closeAbove,
        ...lowerMark('open_below', queueDepth.openBelow),
        on_depth: queueDepth.onDepth,
      },
    }),
    ...(gpuMemory && {
      gpu_memory: { close_above: gpuMemory.closeAbove, ...lowerMark('open_below', gpuMemory.openBelow) },
    }),
    ...(agentWaiting && {
      agent_waiting: { high: agentWaiting.high, ...lowerMark('low', agentWaiting.low) },
    }),
  };
}

function valuesView(values: Omit<PolicyValues, 'gates'> & { readonly gates?: GateSettings | undefined }) {
  const { gates, idleUnloadMs, maxWorkersPerModel, scaleUpWaitMs } = values;
  const { minWarmWorkersPerPool: floor, maxTotalWorkers: ceiling } = values;
  const view: PolicyValuesView = {
    ...(gates && { gates: gatesView(gates) }),
    ...(idleUnloadMs !== undefined && { idle_unload_sec: idleUnloadMs / 1000 }),
    ...(maxWorkersPerModel !== undefined && { max_workers_per_model: maxWorkersPerModel }),
    ...(floor !== undefined && { min_warm_workers_per_pool: floor }),
    ...(ceiling !== undefined && { max_total_workers: ceiling }),
    ...(scaleUpWaitMs !== undefined && { scale_up_wait_sec: scaleUpWaitMs / 1000 }),
  };
  return view;
}

function policyView(engine: Engine): PolicyView {
  const record = policyOf(engine);
  const { by, why, at, values } = record;
  const { gates, pools } = engine.settings;
  const limits: readonly LimitSpec[] = limitsOf(engine, DEFAULT_TENANT);
  const { idleUnloadMs, maxWorkersPerModel, minWarmWorkersPerPool, maxTotalWorkers, scaleUpWaitMs } = pools;
  const sizes = { idleUnloadMs, maxWorkersPerModel, minWarmWorkersPerPool, maxTotalWorkers, scaleUpWaitMs };
  return {
    set: valuesView(values),
    ...{ by, why, at },
    in_force: valuesView({ gates: gates ?? {}, ...sizes }),
    limits: limitList(limits),
    ...('before' in record && { before: beforeView(record.before) }),
  };
}

const beforeView = ({ by, why, at, values }: ReturnType<typeof policyOf>) => ({
  set: valuesView(values),
  ...{ by, why, at },
});

const previewView = (found: PolicyPreview): NonNullable<PolicyView['preview']> => ({
  closes_queue: found.closesQueue,
  closes_memory: found.closesMemory,
  agents: [...found.agents],
  idle_workers: [...found.idleWorkers],
  excess_workers: [...found.excessWorkers],
  worker_pools: found.workerPools.map(({ id, before, wished }) => ({
    pool_id: id,
    before,
    wished_workers: wished,
  })),
  scopes: [...found.scopes],
});
