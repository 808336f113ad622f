/** A doorbell on a real Redis, and consumers that read from it with the plain commands of the protocol. */
import type { TestContext } from 'node:test';
import { createClient } from 'redis';
import { RedisConnection } from '../../src/backends/stream/connection.ts';
import { RedisDoorbell } from '../../src/backends/stream/doorbell.ts';
import { DLQ, jobsPlace } from '../../src/backends/stream/names.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { ResolvedConfig } from '../../src/config/resolve.ts';
import type { JobHint, PoolHints } from '../../src/core/ports/doorbell.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger, type Logger } from '../../src/kit/logger.ts';
import { type OwnRedis, ownRedis, type RedisOptions, type Reply } from './redis.ts';

export const env = realEnv();

export const redisConfig = (settings: Readonly<Record<string, unknown>>): ResolvedConfig['redis'] =>
  loadConfig({ text: JSON.stringify({ redis: settings }) }).redis;

export async function testRedis(t: TestContext, options?: RedisOptions): Promise<OwnRedis> {
  const redis = await ownRedis(options);
  t.after(() => redis.stop());
  return redis;
}

/** What the logger of the kit has written. */
export const loggedLines = (): { readonly logger: Logger; readonly lines: string[] } => {
  const lines: string[] = [];
  return { logger: createLogger({ write: (line) => lines.push(line), now: () => 0 }), lines };
};

export async function connected(
  t: TestContext,
  settings: Readonly<Record<string, unknown>>,
  logger?: Logger,
): Promise<RedisConnection> {
  const connection = new RedisConnection({ env, logger, settings: redisConfig(settings) });
  t.after(() => connection.stop());
  await connection.start();
  return connection;
}

export const isUp = (connection: RedisConnection): Promise<void> => until(() => connection.isUp);

export interface DoorbellSite {
  readonly connection: RedisConnection;
  readonly doorbell: RedisDoorbell;
}

export async function doorbellOn(
  t: TestContext,
  settings: Readonly<Record<string, unknown>>,
  logger?: Logger,
): Promise<DoorbellSite> {
  const connection = await connected(t, settings, logger);
  const { payloadBytes, claimIdleMs } = redisConfig(settings);
  const doorbell = new RedisDoorbell({ clock: env.clock, logger, connection, payloadBytes, claimIdleMs });
  return { connection, doorbell };
}

export const hint = (n: number, pool = 'default', more: Partial<JobHint> = {}): JobHint => ({
  pool,
  token: `job-${n}:1`,
  jobId: `job-${n}`,
  type: 'work',
  ...more,
});

export const hints = (
  waiting: readonly JobHint[],
  held: readonly string[] = [],
  pool = 'default',
): PoolHints => ({
  pool,
  waiting,
  held: new Set(held),
});

/** Sweeps until the stream is as it should be, as a brain does it every second. */
export async function sweepUntil(
  { doorbell }: DoorbellSite,
  pools: readonly PoolHints[],
  holds: () => Promise<boolean>,
): Promise<void> {
  await until(async () => {
    doorbell.sweep(pools);
    await doorbell.idle();
    return holds();
  });
}

/** The entries of a stream, as records of their fields. */
export async function entriesOf(redis: OwnRedis, key: string): Promise<Record<string, string>[]> {
  const reply = (await redis.call('XRANGE', key, '-', '+')) as readonly (readonly [
    string,
    readonly string[],
  ])[];
  return reply.map(([, flat]) =>
    Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]])),
  );
}

export const tokensIn = async (redis: OwnRedis, pool = 'default'): Promise<string[]> =>
  (await entriesOf(redis, jobsPlace(pool).key)).map(({ token = '' }) => token);

export const deadLetters = (redis: OwnRedis): Promise<Record<string, string>[]> => entriesOf(redis, DLQ);

/** Reads as a consumer does: the tokens of new entries, which stay pending for it. */
export async function readAs(
  redis: OwnRedis,
  consumer: string,
  pool = 'default',
  count = 10,
): Promise<string[]> {
  const { key, group } = jobsPlace(pool);
  const reply = await redis.call(
    ...['XREADGROUP', 'GROUP', group, consumer, 'COUNT', String(count), 'STREAMS', key, '>'],
  );
  const streams = (reply ?? []) as readonly (readonly [string, readonly (readonly [string, string[]])[]])[];
  return streams.flatMap(([, entries]) => entries.map(([, flat]) => flat[flat.indexOf('token') + 1] ?? ''));
}

/** Adds many entries quickly, on one connection. */
export async function fill(
  redis: OwnRedis,
  key: string,
  count: number,
  fields: readonly string[],
): Promise<void> {
  const client = createClient({ url: redis.url, RESP: 2 });
  client.on('error', () => undefined);
  await client.connect();
  for (let n = 0; n < count; n += 1000) {
    const batch = Array.from({ length: Math.min(1000, count - n) }, () =>
      client.sendCommand(['XADD', key, '*', ...fields]),
    );
    await Promise.all(batch);
  }
  client.destroy();
}

/** Waits for a state of another process. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10));
}

export type { OwnRedis, Reply };
