/**
 * Tells consumers over Redis Streams which jobs wait for them. Calls only note what is to be done; one run after the other
 * carries it out. What Redis has lost or refused is done again with the next sweep.
 */
import type { Doorbell, DoorbellPlace, JobHint, PoolHints } from '../../core/ports/doorbell.ts';
import type { Clock } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { describeThrown } from '../../kit/redact.ts';
import { RedisAway } from './client.ts';
import type { RedisConnection } from './connection.ts';
import { jobsForm } from './entry.ts';
import { HintStream } from './hint-stream.ts';
import { jobsPlace } from './names.ts';

export interface DoorbellParts {
  readonly clock: Clock;
  readonly logger: Logger | undefined;
  readonly connection: RedisConnection;
  readonly payloadBytes: number;
  readonly claimIdleMs: number;
}

/** Unclaimed entries are looked for so often within the time after which they are published again. */
const LOOKS_PER_IDLE = 2;

export class RedisDoorbell implements Doorbell {
  readonly #parts: DoorbellParts;
  readonly #pools = new Map<string, HintStream<JobHint>>();
  #isRepairDue = false;
  #reclaimedAt = Number.NEGATIVE_INFINITY;
  #run: Promise<void> | undefined;

  constructor(parts: DoorbellParts) {
    this.#parts = parts;
    parts.connection.onUp(() => {
      for (const pool of this.#pools.values()) pool.forget();
    });
  }

  /** Entries by stream, when they were last counted. */
  lengths(): ReadonlyMap<string, number> {
    return new Map(Array.from(this.#pools.values(), ({ place, length }) => [place.key, length]));
  }

  placeOf(pool: string): DoorbellPlace {
    return jobsPlace(pool);
  }

  publish(hint: JobHint): void {
    if (!this.#parts.connection.isUp) return;
    this.#poolOf(hint.pool).publish(hint);
    this.#start();
  }

  settled(pool: string, token: string): void {
    this.#pools.get(pool)?.settle(token);
    this.#start();
  }

  sweep(pools: readonly PoolHints[]): void {
    if (!this.#parts.connection.isUp) return;
    for (const hints of pools) this.#poolOf(hints.pool).compare(hints);
    const named = new Set(pools.map(({ pool }) => pool));
    for (const [name, pool] of this.#pools) {
      if (named.has(name)) continue;
      pool.compare({ waiting: [], held: new Set() });
      if (pool.isIdle) this.#pools.delete(name);
    }
    this.#isRepairDue = true;
    this.#start();
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#run !== undefined) await this.#run;
  }

  #poolOf(name: string): HintStream<JobHint> {
    const known = this.#pools.get(name);
    if (known) return known;
    const pool = new HintStream(jobsForm(name, this.#parts.payloadBytes), this.#parts);
    this.#pools.set(name, pool);
    return pool;
  }

  #start(): void {
    if (this.#run || !this.#parts.connection.isUp) return;
    this.#run = this.#work()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#run = undefined;
      });
  }

  /** Why the server refuses or is away is told by the connection. */
  #failed(error: unknown): void {
    if (error instanceof RedisAway) return;
    this.#parts.logger?.debug('a stream in Redis could not be brought up to date', {
      reason: describeThrown(error),
    });
  }

  async #work(): Promise<void> {
    // What was called in this turn is done together.
    await Promise.resolve();
    for (;;) {
      const busy = [...this.#pools.values()].filter(({ hasWork }) => hasWork);
      for (const pool of busy) await pool.flush();
      if (busy.length > 0) continue;
      if (!this.#isRepairDue) return;
      this.#isRepairDue = false;
      await this.#repair();
    }
  }

  async #repair(): Promise<void> {
    const now = this.#parts.clock.monotonic();
    const reclaims = now - this.#reclaimedAt >= this.#parts.claimIdleMs / LOOKS_PER_IDLE;
    if (reclaims) this.#reclaimedAt = now;
    for (const pool of [...this.#pools.values()]) {
      try {
        await pool.repair(reclaims);
      } catch (error) {
        // Of other pools the server may take what it refuses of this one.
        this.#failed(error);
      }
    }
  }
}
