/**
 * Brings worker pools to their sizes within one step. What is found of the memory of devices holds for all pools, so that a
 * look at a thousand pools that lack workers costs little more than one at a thousand that lack none.
 *
 * F1  A pool takes over a worker of its model that nobody keeps before it orders one.
 * F2  A pool makes room only where that stops no busy worker, and no worker that another pool keeps.
 */
import { isCpu } from '../../model/policy.ts';
import type { ModelRecord, WorkerRecord } from '../../model/records.ts';
import type { WorkerPoolRecord } from '../../model/worker-pool-record.ts';
import type { Turn } from '../turn.ts';
import { startsLeft } from './ceiling.ts';
import { type EvictionRequest, planEviction, planReplacement } from './evict.ts';
import { ANY_WORKER, evict, start } from './plan.ts';
import { isLeaving, roomForWorker, Survey } from './room.ts';

/** Workers that are ordered in one step: a pool of thousands must not keep the brain from everything else. */
const STARTS_AT_ONCE = 256;

/** The id of a worker, with its record. */
export type NamedWorker = readonly [id: string, record: WorkerRecord];

export class PoolFiller {
  readonly #turn: Turn;
  readonly #survey: Survey;
  #startsLeft = STARTS_AT_ONCE;
  /** The workers that nobody keeps, by the reference of their model. */
  readonly #free = new Map<string, NamedWorker[]>();
  /** Sizes of workers for which no device has room, and for which room was made if that was possible. */
  readonly #noRoom = new Set<number>();
  #isReplaced = false;

  constructor(turn: Turn) {
    this.#turn = turn;
    this.#survey = new Survey(turn);
  }

  /** Takes over, or orders, so many workers for the pool, as far as that is possible now. */
  fill(id: string, record: WorkerPoolRecord, missing: number): void {
    const model = startable(this.#turn, record);
    if (!model) return;
    const left = missing - this.#takeOver(id, model, missing);
    if (left > 0) this.#order(id, model, left);
  }

  /** F1. */
  #takeOver(id: string, { ref }: ModelRecord, missing: number): number {
    const { workers, pools } = this.#turn.state;
    const mayTake = ([, record]: NamedWorker): boolean =>
      record.workerPool === undefined && !isLeaving(record) && pools.get(record.pool)?.up === true;
    const free = this.#free.get(ref) ?? workers.of(ref).filter(mayTake);
    const taken = free.splice(0, missing);
    this.#free.set(ref, free);
    for (const [worker, record] of taken)
      this.#turn.put('worker', worker, { ...record, workerPool: id }, 'changed');
    return taken.length;
  }

  #order(id: string, model: ModelRecord, missing: number): void {
    const turn = this.#turn;
    if (this.#noRoom.has(model.vramBytes) || this.#isReplaced) return;
    const { pools, gates } = turn.state;
    const failed = pools.failedStarts.get(model.ref);
    const rooms = this.#survey.for({ labels: undefined, vramBytes: model.vramBytes });
    const open = gates.memory ? rooms.filter(({ pool }) => isCpu(pool.report.labels)) : rooms;
    for (let left = missing; left > 0; left--) {
      if (startsLeft(turn) <= 0) return this.#replaceIdle(id, model);
      // The next tick goes on.
      if (this.#startsLeft-- <= 0) return;
      const room = roomForWorker(open, model.vramBytes, turn.settings.pools.region, failed?.where);
      if (!room) return this.#makeRoom(id, model);
      start(turn, model, room, { is: 'worker-pool', pool: id }, (failed?.tries ?? 0) + 1, id);
    }
  }

  /** F2. What is freed is used when the pool manager reports it. */
  #makeRoom(id: string, { id: name, vramBytes }: ModelRecord): void {
    const turn = this.#turn;
    this.#noRoom.add(vramBytes);
    if (turn.state.gates.memory) return;
    for (const room of this.#survey.for({ labels: undefined, vramBytes })) {
      const eviction = planEviction(idleOnly(turn), room, vramBytes);
      if (eviction.is === 'coming') return;
      if (eviction.is !== 'evict') continue;
      evict(turn, eviction, `${name} (worker pool ${id})`);
      room.changed();
      return;
    }
  }

  /** F2, while as many workers run as may. */
  #replaceIdle(id: string, model: ModelRecord): void {
    this.#isReplaced = true;
    const everywhere = this.#survey.for(ANY_WORKER);
    const eviction = planReplacement(idleOnly(this.#turn), everywhere);
    if (eviction.is !== 'evict') return;
    evict(this.#turn, eviction, `${model.id} (worker pool ${id})`);
    for (const room of everywhere) room.changed();
  }
}

/** The model of a pool, while workers with it may be started. */
function startable(turn: Turn, { serves }: WorkerPoolRecord): ModelRecord | undefined {
  const { catalog, pools } = turn.state;
  const model = serves === undefined ? undefined : catalog.get(serves);
  const failed = model && pools.failedStarts.get(model.ref);
  return model?.state === 'active' && !(failed && failed.until > turn.now) ? model : undefined;
}

const idleOnly = ({ settings, now }: Turn): EvictionRequest => ({
  settings: settings.pools,
  now,
  mayDrain: false,
  wasJustEvicted: false,
});
