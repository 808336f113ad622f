/** Commands to models, sessions, pools, limits, prices, seats, leases and the marks of modules. Each resolves once its change is durable. */
import type { Engine } from '../core/engine/engine.ts';
import { scopes } from '../core/limits/limit.ts';
import type { PoolOrder } from '../core/workers/operator-commands.ts';
import type { Env, Random } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import type { ModelView } from '../model/http/catalog.ts';
import type { LeaseView } from '../model/http/leases.ts';
import type { RouteView } from '../model/http/routes.ts';
import type { LimitSpec } from '../model/limit-records.ts';
import type { PriceSpec } from '../model/price.ts';
import {
  DEFAULT_TENANT,
  type ModelRecord,
  type ModelRegistration,
  type Verification,
  type WorkerRecord,
} from '../model/records.ts';
import type { RouteStep } from '../model/route.ts';
import type { Bodies } from './bodies.ts';
import type { BrainClock } from './brain-clock.ts';
import { Commands } from './command-order.ts';
import type { Erasures } from './erasures.ts';
import { GovernanceCommands } from './governance.ts';
import type { Loop } from './loop.ts';
import { McpRecords } from './mcp-records.ts';
import { ModuleMarks } from './module-marks.ts';
import { PolicyCommands } from './policy.ts';
import type { Reads } from './reads.ts';
import { routeView } from './route-view.ts';
import type { SessionArchive } from './session-archive.ts';
import { SessionCommands } from './session-commands.ts';
import { leaseView, modelView } from './views.ts';
import { WorkerPoolCommands } from './worker-pools.ts';

class CatalogCommands extends Commands {
  async register(model: ModelRegistration): Promise<ModelView> {
    return modelView(await this.order({ type: 'register', model }));
  }

  async setState(id: string, state: ModelRecord['state']): Promise<ModelView> {
    return modelView(await this.order({ type: 'model-state', id, state }));
  }

  async verified(id: string, verified: Verification): Promise<ModelView> {
    return modelView(await this.order({ type: 'verified', id, verified }));
  }

  async setRoute(id: string, steps: readonly RouteStep[], by: string): Promise<RouteView> {
    return routeView(await this.order({ type: 'route', id, steps, by }));
  }

  async deleteRoute(id: string, by: string): Promise<void> {
    await this.order({ type: 'drop-route', id, by });
  }
}

class PoolCommands extends Commands {
  readonly workerPools: WorkerPoolCommands;

  constructor(loop: Loop, engine: Engine, mayAct: () => boolean) {
    super(loop, engine);
    this.workerPools = new WorkerPoolCommands(loop, engine, mayAct);
  }

  async command(id: string, order: PoolOrder, by: string): Promise<void> {
    await this.order({ type: 'pool-order', id, order, by });
  }

  /** Declares the pool gone for good, with everything that ran there. */
  async forget(id: string, by: string): Promise<void> {
    await this.order({ type: 'pool-order', id, order: { is: 'forget' }, by });
  }

  evict(worker: string, by: string, isDead: boolean): Promise<WorkerRecord> {
    return this.order({ type: 'evict', worker, by, isDead });
  }

  /** Evicts all workers of the pool; returns their ids. */
  evictAll(pool: string, by: string): Promise<readonly string[]> {
    return this.order({ type: 'evict-pool', pool, by });
  }
}

/** The budget that the token file gives to a token. */
export interface TokenBudget extends Pick<LimitSpec, 'costBudget' | 'window' | 'timeZone' | 'hard'> {
  readonly tenant: string;
  readonly name: string;
}

class LimitCommands extends Commands {
  /** Replaces the limits that the tenant has set; without a tenant, the operator's. */
  async set(
    limits: readonly LimitSpec[],
    by: string,
    tenant = DEFAULT_TENANT,
  ): Promise<readonly LimitSpec[]> {
    const record = await this.order({ type: 'limits', limits, by, tenant });
    await this.loop.askUntilDone({ type: 'reserve-live' });
    return record.limits;
  }

  /** Replaces the budgets that tokens have by the token file. */
  async setOfTokens(budgets: readonly TokenBudget[]): Promise<void> {
    const limits = budgets.map(({ tenant, name, ...rest }) => ({ scope: scopes.key(tenant, name), ...rest }));
    await this.order({ type: 'key-limits', limits });
  }
}

class PriceCommands extends Commands {
  /** Replaces all prices. Attempts that are recorded already keep theirs. */
  async set(prices: readonly PriceSpec[], by: string): Promise<readonly PriceSpec[]> {
    return (await this.order({ type: 'prices', prices, by })).prices;
  }

  /** Ends the pause of a seat that was billed too much. Returns whether it was paused. */
  resumeSeat(seat: string, by: string): Promise<boolean> {
    return this.order({ type: 'resume-seat', seat, by });
  }
}

export interface LeaseGrantRequest {
  readonly agent: string;
  readonly minMemoryMb: number;
  readonly ttlMs: number;
  readonly pool?: string;
  readonly gpuIndex?: number;
  /** Generated if it is not given. */
  readonly token?: string;
}

const TOKEN_BYTES = 32;

class LeaseCommands extends Commands {
  readonly #random: Random;
  readonly #clock: BrainClock;
  readonly #mayAct: () => boolean;

  constructor(loop: Loop, engine: Engine, clock: BrainClock, random: Random, mayAct: () => boolean) {
    super(loop, engine);
    this.#mayAct = mayAct;
    this.#clock = clock;
    this.#random = random;
  }

  async grant(request: LeaseGrantRequest, tenant: string): Promise<LeaseView> {
    const token = request.token ?? this.#random.hex(TOKEN_BYTES);
    return leaseView(await this.order({ type: 'lease', request: { ...request, token, tenant } }));
  }

  async heartbeat(lease: string, tenant: string, fence?: number): Promise<LeaseView> {
    // A heartbeat may change memory only. No fenced write would then stop a brain that was replaced, so check here.
    if (!this.#mayAct()) throw new OrchdError('FENCED');
    const spared = !this.#clock.mayExpire();
    return leaseView(await this.order({ type: 'heartbeat', lease, fence, tenant, spared }));
  }

  /** Without a tenant the lease may be anybody's: that is for the operator. */
  async release(lease: string, tenant?: string, fence?: number): Promise<void> {
    await this.order({ type: 'release', lease, fence, tenant, spared: !this.#clock.mayExpire() });
  }
}

export interface CommandParts {
  readonly loop: Loop;
  readonly engine: Engine;
  readonly clock: BrainClock;
  readonly env: Pick<Env, 'random'>;
  readonly bodies: Bodies;
  readonly reads: Reads;
  readonly sessionArchive: SessionArchive;
  readonly erasures: Erasures;
  /** Whether this brain still holds its store. */
  readonly mayAct: () => boolean;
}

export type BrainCommands = ReturnType<typeof commandsOf>;

export const commandsOf = ({ loop, engine, clock, env, mayAct, ...parts }: CommandParts) => ({
  leases: new LeaseCommands(loop, engine, clock, env.random, mayAct),
  catalog: new CatalogCommands(loop, engine),
  sessions: new SessionCommands({ loop, engine, ...parts }),
  pools: new PoolCommands(loop, engine, mayAct),
  limits: new LimitCommands(loop, engine),
  prices: new PriceCommands(loop, engine),
  moduleMarks: new ModuleMarks(loop, engine),
  governance: new GovernanceCommands(loop, engine),
  policy: new PolicyCommands(loop, engine, clock),
  mcp: new McpRecords(loop, engine),
});
