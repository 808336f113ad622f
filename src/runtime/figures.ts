/** Counts of jobs, backends, workers and pools at one instant, as plain data for metrics. */

import type { BudgetUse } from '../core/limits/gate-use.ts';
import { writtenScope } from '../core/limits/limit.ts';
import type { PoolDevice } from '../core/ports/pools.ts';
import { workerBackend } from '../core/ports/pools.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { isDeviceLease } from '../core/state/leases.ts';
import type { TurnContext } from '../core/turn.ts';
import { unclaimedByPool } from '../core/workers/scaling.ts';
import type { GovernanceRecord } from '../model/governance.ts';
import type { JobClass } from '../model/records.ts';
import type { JobState } from '../model/states.ts';

/** Budgets in one scrape. */
const MAX_BUDGETS = 1000;

/** The part of an engine that is counted. */
type Measured = Pick<TurnContext, 'state' | 'queue' | 'settings'>;

export interface Figures {
  /** Jobs in memory, by state. */
  readonly jobs: Readonly<Record<JobState, number>>;
  /** Jobs that are ready to run, by class. */
  readonly ready: Readonly<Record<JobClass, number>>;
  /** Jobs that wait for the backend with their conversation. */
  readonly sticky: number;
  readonly backends: readonly {
    readonly name: string;
    /** The worker's own id without its pool; for any other backend its name. */
    readonly workerId: string;
    readonly used: number;
    readonly slots: number;
  }[];
  /** The workers of all pools, with the state that the brain has decided for them. */
  readonly workers: readonly { readonly pool: string; readonly modelRef: string; readonly state: string }[];
  readonly pools: readonly {
    readonly id: string;
    readonly up: boolean;
    readonly devices: readonly PoolDevice[];
  }[];
  readonly money: {
    /** Millionths that open attempts hold. */
    readonly reserved: number;
    /** Jobs that wait at gates. */
    readonly parked: number;
    readonly pausedSeats: number;
    /** The first MAX_BUDGETS budgets that name their scope, without those that tenants have set for themselves. */
    readonly budgets: readonly BudgetUse[];
  };
  /** The worker pools that are not over, or still have workers. */
  readonly workerPools: readonly {
    readonly id: string;
    readonly isOver: boolean;
    readonly workers: number;
  }[];
  /** Of each pool of consumers, the jobs that none of them has claimed. */
  readonly streams: readonly { readonly pool: string; readonly jobs: number }[];
  /** Leases on devices that are held, and devices for leases on which there is none. */
  readonly leases: { readonly active: number; readonly freeDevices: number };
  /** Absent at a node that does not lead. */
  readonly governance?: Pick<GovernanceRecord, 'mode' | 'violations'>;
}

export function figuresOf(engine: Measured, now: number): Figures {
  const { state, queue } = engine;
  const { interactive, batch } = queue.waiting;
  return {
    jobs: { ...state.counts },
    ready: { interactive: interactive.jobs, batch: batch.jobs },
    sticky: queue.sticky.size,
    backends: Array.from(queue.fleet.backends, ([name, { info, used }]) => ({
      name,
      workerId: info.home ? name.slice(workerBackend(info.home.pool, '').length) : name,
      used,
      slots: info.slots,
    })),
    workers: Array.from(state.workers.values(), ({ pool, modelRef, state: decided }) => ({
      pool,
      modelRef,
      state: decided,
    })),
    pools: Array.from(state.pools.known, ([id, { up, report }]) => ({ id, up, devices: report.devices })),
    money: {
      reserved: reservedBy(state.open.values()),
      parked: queue.atGates,
      pausedSeats: [...queue.fleet.backends.values()].filter(({ paused }) => paused).length,
      budgets: [...operatorBudgets(queue.gates.namedBudgets(now))],
    },
    workerPools: workerPoolFigures(engine),
    streams: unclaimedByPool(engine),
    leases: leaseFigures(engine),
    governance: state.governance.record,
  };
}

function workerPoolFigures({ state }: Measured): Figures['workerPools'] {
  const rows = Array.from(state.tables.worker_pool.entries(), ([id, { status, spawned }]) => ({
    id,
    isOver: status === 'stopped' || status === 'evicted',
    workers: spawned,
  }));
  return rows.filter(({ isOver, workers }) => !isOver || workers > 0);
}

function leaseFigures({ state, settings }: Measured): Figures['leases'] {
  const held = [...state.leases.all()].filter(({ record }) => isDeviceLease(record));
  const leased = new Set(held.map(({ record: { pool, gpuIndex } }) => `${pool ?? ''}#${gpuIndex}`));
  let freeDevices = settings.devices.filter(({ index }) => !leased.has(`#${index}`)).length;
  for (const [id, { up, devices }] of state.pools.known)
    for (const { id: device, ok, isCpu } of up ? devices.values() : [])
      if (ok && !isCpu && !leased.has(`${id}#${device}`)) freeDevices++;
  return { active: held.length, freeDevices };
}

/** The budgets that the operator or the token file has set: tenants may name any number of scopes. */
function* operatorBudgets(budgets: Iterable<BudgetUse>): Generator<BudgetUse> {
  let count = 0;
  for (const use of budgets) {
    if (writtenScope(use.scope) !== use.scope) continue;
    if (++count > MAX_BUDGETS) return;
    yield use;
  }
}

function reservedBy(open: Iterable<JobEntry>): number {
  let reserved = 0;
  for (const entry of open) reserved += entry.open?.bill?.reserved ?? 0;
  return reserved;
}
