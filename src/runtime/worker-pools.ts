/** Worker pools: orders of operators and reports of programs that start workers; each resolves once it is durable. */
import type { Engine } from '../core/engine/engine.ts';
import { Wishes } from '../core/workers/ceiling.ts';
import { problemOf } from '../core/workers/keep-pools.ts';
import { type WorkerPoolOrder, workerPoolOf } from '../core/workers/worker-pools.ts';
import { OrchdError } from '../model/errors.ts';
import type { WorkerPoolRequest, WorkerPoolView } from '../model/http/worker-pools.ts';
import type { WorkerPoolRecord, WorkerPoolSpec } from '../model/worker-pool-record.ts';
import { Commands } from './command-order.ts';
import type { Loop } from './loop.ts';
import { whenDurable } from './when-durable.ts';

const DEFAULT_HOLD_SEC = 600;

export class WorkerPoolCommands extends Commands {
  readonly #mayAct: () => boolean;

  constructor(loop: Loop, engine: Engine, mayAct: () => boolean) {
    super(loop, engine);
    this.#mayAct = mayAct;
  }

  create(id: string, request: WorkerPoolRequest, by: string): Promise<WorkerPoolView> {
    return this.command(id, { is: 'create', spec: specOf(request) }, by);
  }

  async command(id: string, order: WorkerPoolOrder, by: string): Promise<WorkerPoolView> {
    // A heartbeat may change nothing: no fenced write would then stop a brain that was replaced.
    if (order.is === 'heartbeat' && !this.#mayAct()) throw new OrchdError('FENCED');
    await this.order({ type: 'worker-pool', id, order, by });
    return this.get(id);
  }

  async delete(id: string): Promise<void> {
    await this.order({ type: 'delete-worker-pool', id });
  }

  get(id: string): Promise<WorkerPoolView> {
    return this.#durable(this.#view(id, workerPoolOf(this.engine, id), new Wishes(this.engine)));
  }

  list(): Promise<readonly WorkerPoolView[]> {
    const rows = this.engine.state.tables.worker_pool.entries();
    const wishes = new Wishes(this.engine);
    return this.#durable(Array.from(rows, ([id, record]) => this.#view(id, record, wishes)));
  }

  #durable<T>(value: T): Promise<T> {
    return whenDurable({ engine: this.engine, loop: this.loop }, value);
  }

  #view(id: string, record: WorkerPoolRecord, wishes: Wishes): WorkerPoolView {
    return {
      pool_id: id,
      agent_name: record.agent ?? null,
      model_id: record.model ?? null,
      serves: record.serves ?? null,
      adapter: record.adapter ?? null,
      variant: record.variant ?? null,
      provisioner: record.provisioner,
      status: record.status,
      desired_workers: record.desired,
      wished_workers: wishes.of(id, record),
      spawned_workers: record.spawned,
      hold_seconds: Math.round(record.holdMs / 1000),
      started_at: record.startedAt,
      ordered_at: record.at,
      last_heartbeat: record.heartbeatAt ?? null,
      drain_by: record.drainBy ?? null,
      grace_over: record.graceOver ?? false,
      by: record.by,
      metadata: record.metadata ?? {},
      problem: problemOf(this.engine, id, record) ?? null,
    };
  }
}

const specOf = (request: WorkerPoolRequest): WorkerPoolSpec => ({
  provisioner: request.provisioner ?? (request.model_id === undefined ? 'external' : 'managers'),
  agent: request.agent_name,
  model: request.model_id,
  adapter: request.adapter,
  variant: request.variant,
  desired: request.desired_workers ?? 0,
  holdMs: (request.hold_seconds ?? DEFAULT_HOLD_SEC) * 1000,
  metadata: request.metadata,
});
