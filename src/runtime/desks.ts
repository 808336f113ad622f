/** Models, sessions and pools as callers see and order them. What is told is durable. */

import { LIMITS_ID } from '../core/admission/quota.ts';
import type { Engine, Reply } from '../core/engine.ts';
import type { EngineEvent } from '../core/events.ts';
import type { Registration } from '../core/workers/catalog.ts';
import { modelOf } from '../core/workers/catalog.ts';
import type { PoolOrder } from '../core/workers/operator-commands.ts';
import { OrchdError } from '../model/errors.ts';
import type {
  LimitSpec,
  LimitsRecord,
  ModelRecord,
  SessionRecord,
  Verification,
  WorkerRecord,
} from '../model/records.ts';
import type { Loop } from './loop.ts';
import {
  type ModelView,
  modelView,
  type PoolView,
  poolView,
  type SessionView,
  sessionView,
} from './views.ts';

class Desk {
  protected readonly loop: Loop;
  protected readonly engine: Engine;

  constructor(loop: Loop, engine: Engine) {
    this.loop = loop;
    this.engine = engine;
  }

  protected async order<T>(event: EngineEvent): Promise<T> {
    const reply: Reply = await this.loop.ask(event);
    if (reply instanceof OrchdError) throw reply;
    return reply as T;
  }

  /** What is seen now, told when all of it is durable. */
  protected async seen<T>(value: T): Promise<T> {
    await this.loop.durable(this.engine.state.seq);
    return value;
  }
}

export class CatalogDesk extends Desk {
  async register(model: Registration): Promise<ModelView> {
    return modelView(await this.order<ModelRecord>({ type: 'register', model }));
  }

  get(id: string): Promise<ModelView> {
    return this.seen(modelView(modelOf(this.engine.state, id)));
  }

  find(id: string): ModelRecord | undefined {
    return this.engine.state.catalog.find(id);
  }

  /** By their ids: the order must not depend on how they came here. */
  list(): Promise<ModelView[]> {
    const models = [...this.engine.state.catalog.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    return this.seen(models.map(modelView));
  }

  async setState(id: string, state: ModelRecord['state']): Promise<ModelView> {
    return modelView(await this.order<ModelRecord>({ type: 'model-state', id, state }));
  }

  async verified(id: string, verified: Verification): Promise<ModelView> {
    return modelView(await this.order<ModelRecord>({ type: 'verified', id, verified }));
  }
}

export class SessionDesk extends Desk {
  get(tenant: string, id: string): Promise<SessionView> {
    const record = this.engine.state.sessionOf(tenant, id);
    if (!record) throw new OrchdError('NOT_FOUND', `there is no session "${id}"`);
    return this.seen(sessionView(this.engine.state, record));
  }

  async setBudget(tenant: string, id: string, tokenBudget: number | undefined): Promise<SessionView> {
    const record = await this.order<SessionRecord>({ type: 'budget', tenant, id, tokenBudget });
    return sessionView(this.engine.state, record);
  }

  /** Ends it, with all that is under way in it. */
  async remove(tenant: string, id: string, by: string): Promise<void> {
    await this.order({ type: 'forget-session', tenant, id, by });
  }
}

export class PoolDesk extends Desk {
  list(): Promise<PoolView[]> {
    const { state } = this.engine;
    return this.seen([...state.pools.known.values()].map((pool) => poolView(state, pool)));
  }

  get(id: string): Promise<PoolView> {
    const pool = this.engine.state.pools.get(id);
    if (!pool) throw new OrchdError('NOT_FOUND', `there is no pool "${id}"`);
    return this.seen(poolView(this.engine.state, pool));
  }

  async command(id: string, order: PoolOrder, by: string): Promise<PoolView> {
    await this.order({ type: 'pool-order', id, order, by });
    return this.get(id);
  }

  /** Declares it gone for good, with all that ran there. */
  async forget(id: string, by: string): Promise<void> {
    await this.order({ type: 'pool-order', id, order: { is: 'forget' }, by });
  }

  async evict(worker: string, by: string, isDead: boolean): Promise<WorkerRecord> {
    return this.order<WorkerRecord>({ type: 'evict', worker, by, isDead });
  }
}

export class LimitDesk extends Desk {
  get(): Promise<readonly LimitSpec[]> {
    const { tables } = this.engine.state;
    return this.seen(tables.limits.get(LIMITS_ID)?.limits ?? this.engine.settings.limits);
  }

  async set(limits: readonly LimitSpec[], by: string): Promise<readonly LimitSpec[]> {
    return (await this.order<LimitsRecord>({ type: 'limits', limits, by })).limits;
  }
}
