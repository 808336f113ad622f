/** What a brain does with Redis while it leads, where the configuration says where Redis is. */
import { DeadLetters } from '../adapters/streams/dead-letters.ts';
import { Inbox } from '../adapters/streams/inbox.ts';
import { Preloads, WorkerPoolNews } from '../adapters/streams/preloads.ts';
import { RedisConnection } from '../backends/stream/connection.ts';
import { RedisDoorbell } from '../backends/stream/doorbell.ts';
import { hasRedis } from '../backends/stream/settings.ts';
import type { Service } from '../kit/service.ts';
import { DEFAULT_TENANT } from '../model/records.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { ServerParts } from './parts.ts';

export class Streams {
  readonly #parts: ServerParts;
  /** Started before the orchestrator. */
  readonly connection: RedisConnection;
  readonly doorbell: RedisDoorbell;
  /** An observer of the orchestrator. */
  readonly poolNews = new WorkerPoolNews();

  private constructor(parts: ServerParts) {
    const { env, options } = parts;
    const { config, logger } = options;
    const { redis } = config;
    const { payloadBytes, claimIdleMs } = redis;
    this.#parts = parts;
    this.connection = new RedisConnection({ env, logger, settings: redis });
    const { connection } = this;
    this.doorbell = new RedisDoorbell({ clock: env.clock, logger, connection, payloadBytes, claimIdleMs });
  }

  static of(parts: ServerParts): Streams | undefined {
    return hasRedis(parts.options.config) ? new Streams(parts) : undefined;
  }

  /** What is wrong with Redis, for people. */
  problems(): readonly string[] {
    return this.connection.problems();
  }

  /** Started after the orchestrator. */
  servicesWith(orchestrator: Orchestrator): readonly Service[] {
    const { env, options, tokens } = this.#parts;
    const { logger, config } = options;
    const { redis } = config;
    const { ingest, control, events, claimIdleMs } = redis;
    const tenants = (): string[] => [DEFAULT_TENANT, ...tokens.entries.map(({ tenant }) => tenant)];
    const { connection, poolNews: changes } = this;
    const writers = [
      new DeadLetters({ env, logger, connection, orchestrator, tenants }),
      new Preloads({ env, logger, connection, orchestrator, changes, claimIdleMs }),
    ];
    if (!ingest && !control) return writers;
    // Its waits for entries must not hold up the commands of others; what is wrong is told by the first connection.
    const reading = new RedisConnection({ env, logger: undefined, settings: redis });
    const rules = { ingest, control, claimIdleMs, events, tokens: () => tokens.entries };
    return [...writers, new Inbox({ env, logger, connection: reading, orchestrator, ...rules })];
  }
}
