/**
 * Publishes in the stream `:preloads` what programs outside have to do for worker pools: start workers, stop some, let
 * all finish, stop all. The rows are the truth: the stream holds one entry for each pool that is not as its row wishes,
 * and is made to agree with the rows again whenever one changes, and whenever Redis was away.
 */
import { RedisAway } from '../../backends/stream/client.ts';
import type { RedisConnection } from '../../backends/stream/connection.ts';
import { type FieldsHint, PRELOADS_FORM, tokenOfFields } from '../../backends/stream/entry.ts';
import { HintStream } from '../../backends/stream/hint-stream.ts';
import { News } from '../../consumer/news.ts';
import { backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { describeThrown } from '../../kit/redact.ts';
import { Service } from '../../kit/service.ts';
import type { WorkerPoolView } from '../../model/http/worker-pools.ts';
import type { Change } from '../../model/records.ts';
import type { Observer } from '../../runtime/observer.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';

/** How often the stream is compared with what is known to be in it. */
const SWEEP_MS = 1000;
const LOOKS_PER_IDLE = 2;
/** Deleted pools whose entry is kept; of more, the oldest go. */
const MAX_DELETED = 1000;
const RETRY = { baseDelayMs: 100, maxDelayMs: 10_000, jitter: 0.2 };
const NONE: ReadonlySet<string> = new Set();

/** Says when rows of worker pools have changed, and which were deleted. */
export class WorkerPoolNews implements Observer {
  readonly news = new News();
  isDue = true;
  readonly deleted = new Map<string, { readonly at: number }>();

  recovered(): void {}

  /** Called with durable changes. */
  changed(changes: readonly Change[], now: number): void {
    for (const { kind, id, after } of changes) {
      if (kind !== 'worker_pool') continue;
      this.deleted.delete(id);
      if (after === null) this.deleted.set(id, { at: now });
      this.changedNow();
    }
    const [oldest] = this.deleted.keys();
    if (this.deleted.size > MAX_DELETED && oldest !== undefined) this.deleted.delete(oldest);
  }

  changedNow(): void {
    this.isDue = true;
    this.news.tell();
  }
}

export interface PreloadsParts {
  readonly env: Pick<Env, 'clock' | 'timers' | 'random'>;
  readonly logger: Logger | undefined;
  readonly connection: RedisConnection;
  readonly orchestrator: Pick<Orchestrator, 'pools'>;
  readonly changes: WorkerPoolNews;
  /** An entry that was read so long ago, and whose pool is not as wished yet, is published again. */
  readonly claimIdleMs: number;
}

export class Preloads extends Service {
  readonly #parts: PreloadsParts;
  readonly #stream: HintStream<FieldsHint>;
  /** Pools of programs outside, when the rows were last read: of others nothing is published. */
  #external: ReadonlySet<string> = NONE;
  /** Entries of deleted pools, each until a monotonic instant. */
  readonly #deleted = new Map<string, { readonly hint: FieldsHint; readonly until: number }>();
  #reclaimedAt = Number.NEGATIVE_INFINITY;
  #running: Promise<void> = Promise.resolve();

  constructor(parts: PreloadsParts) {
    super();
    this.#parts = parts;
    this.#stream = new HintStream(PRELOADS_FORM, parts);
    parts.connection.onUp(() => {
      this.#stream.forget();
      parts.changes.changedNow();
    });
  }

  protected async onStart(): Promise<void> {
    this.stopSignal.addEventListener('abort', () => this.#parts.changes.news.tell());
    this.#running = this.#run();
  }

  protected async onStop(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    const { env, logger, connection, changes } = this.#parts;
    let failures = 0;
    while (!this.stopSignal.aborted) {
      const next = changes.news.next;
      try {
        if (!connection.isUp) {
          await next;
          continue;
        }
        await this.#step();
        failures = 0;
        await Promise.race([next, pause(env.timers, SWEEP_MS, this.stopSignal)]);
      } catch (error) {
        if (failures++ === 0 && !(error instanceof RedisAway))
          logger?.debug('worker pools could not be published in Redis; this is tried again', {
            reason: describeThrown(error),
          });
        await pause(env.timers, backoffMs(RETRY, failures, env.random.next()), this.stopSignal);
      }
    }
  }

  async #step(): Promise<void> {
    const { clock } = this.#parts.env;
    const stream = this.#stream;
    await this.#compare();
    while (stream.hasWork) await stream.flush();
    const now = clock.monotonic();
    const reclaims = now - this.#reclaimedAt >= this.#parts.claimIdleMs / LOOKS_PER_IDLE;
    if (reclaims) this.#reclaimedAt = now;
    await stream.repair(reclaims);
    while (stream.hasWork) await stream.flush();
  }

  async #compare(): Promise<void> {
    const { changes, orchestrator, env } = this.#parts;
    const isOver = [...this.#deleted].filter(([, { until }]) => until <= env.clock.monotonic());
    for (const [id] of isOver) this.#deleted.delete(id);
    if (!changes.isDue && isOver.length === 0) return;
    changes.isDue = false;
    try {
      const rows = await orchestrator.pools.workerPools.list();
      this.#noteDeleted();
      const external = rows.filter(({ provisioner }) => provisioner === 'external');
      this.#external = new Set(external.map(({ pool_id: id }) => id));
      for (const id of this.#external) this.#deleted.delete(id);
      const waiting = external.filter(isNotAsWished).map(hintOf);
      for (const { hint } of this.#deleted.values()) waiting.push(hint);
      this.#stream.compare({ waiting, held: NONE });
    } catch (error) {
      changes.isDue = true;
      throw error;
    }
  }

  /** Nothing is left that says when such an entry was carried out: it goes after a while. */
  #noteDeleted(): void {
    const { changes, claimIdleMs, env } = this.#parts;
    const until = env.clock.monotonic() + claimIdleMs;
    for (const [id, { at }] of changes.deleted)
      if (this.#external.has(id)) this.#deleted.set(id, { hint: deletedHint(id, at), until });
    changes.deleted.clear();
    for (const id of [...this.#deleted.keys()].slice(0, -MAX_DELETED)) this.#deleted.delete(id);
  }
}

const isNotAsWished = ({
  status,
  wished_workers: wished,
  spawned_workers: spawned,
}: WorkerPoolView): boolean => status === 'draining' || wished !== spawned;

/** In the words of the table `worker_pools`; what a row leaves out, its entry leaves out. */
const hintOf = (row: WorkerPoolView): FieldsHint =>
  hintWith([
    ['pool_id', row.pool_id],
    ['agent_name', row.agent_name],
    ['model_id', row.model_id],
    ['adapter', row.adapter],
    ['variant', row.variant],
    ['desired_workers', row.desired_workers],
    ['wished_workers', row.wished_workers],
    ['status', row.status],
    ['ordered_at', row.ordered_at],
    ['grace_over', row.grace_over ? 'true' : null],
  ]);

const deletedHint = (id: string, at: number): FieldsHint =>
  hintWith([
    ['pool_id', id],
    ['desired_workers', 0],
    ['wished_workers', 0],
    ['status', 'deleted'],
    ['ordered_at', at],
  ]);

function hintWith(values: readonly (readonly [name: string, value: string | number | null])[]): FieldsHint {
  const fields = values.flatMap(([name, value]) => (value === null ? [] : [[name, String(value)] as const]));
  return { token: tokenOfFields(fields), fields };
}
