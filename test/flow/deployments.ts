/** Brains for consumers as they are deployed: on the embedded store alone, or on a real MariaDB with a real Redis. */
import type { TestContext } from 'node:test';
import { DeadLetters } from '../../src/adapters/streams/dead-letters.ts';
import type { RedisDoorbell } from '../../src/backends/stream/doorbell.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { needPython } from '../fakes/debian.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { doorbellOn, isUp, type OwnRedis, env as realEnv, testRedis } from '../fakes/redis-kit.ts';
import { ConsumerSite } from './consumer-kit.ts';
import { dataOf, placed } from './flow-kit.ts';

export const DEPLOYMENTS = ['the embedded store', 'MariaDB and Redis'] as const;
export type Deployment = (typeof DEPLOYMENTS)[number];

const QUICK = `orchestrator:
  recovery: { sweep_interval_ms: 100 }
  retry: { base_delay_ms: 10, max_delay_ms: 10 }`;

export interface Deployed {
  readonly site: ConsumerSite;
  readonly brain: HttpBrain;
  /** The folder, or the address of the database. */
  readonly data: string;
}

export interface DeployedOnRedis extends Deployed {
  readonly redis: OwnRedis;
  readonly doorbell: RedisDoorbell;
}

export async function deployed(t: TestContext, where: Deployment): Promise<Deployed & { redis?: OwnRedis }> {
  if (where === 'MariaDB and Redis') return deployedOnRedis(t, await dataOf(t, 'mariadb'));
  const data = await dataOf(t, 'journal');
  const brain = await httpBrain({ data, config: QUICK });
  t.after(() => brain.stop());
  return { site: new ConsumerSite(t, brain.url), brain, data };
}

/** On this store, with a Redis that is its own. */
export async function deployedOnRedis(t: TestContext, data: string, env?: Env): Promise<DeployedOnRedis> {
  await needPython('python3-redis', 'redis');
  const redis = await testRedis(t);
  const { connection, doorbell } = await doorbellOn(t, { url: redis.url, claim_idle_ms: 200 });
  await isUp(connection);
  const brain = await httpBrain(placed({ data, config: QUICK, doorbell, ...(env && { env }) }));
  t.after(() => brain.stop());
  const { orchestrator } = brain;
  const shared = { env: realEnv, logger: undefined, connection, orchestrator };
  const letters = new DeadLetters({ ...shared, tenants: () => [] });
  await letters.start();
  t.after(() => letters.stop());
  return { site: new ConsumerSite(t, brain.url, undefined, redis.url), brain, data, redis, doorbell };
}
