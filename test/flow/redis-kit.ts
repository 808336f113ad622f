/** A brain in this process with what it does on Redis around it, as a server has it. */
import type { TestContext } from 'node:test';
import { DeadLetters } from '../../src/adapters/streams/dead-letters.ts';
import { Inbox } from '../../src/adapters/streams/inbox.ts';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import { RedisConnection } from '../../src/backends/stream/connection.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { ServiceList } from '../../src/kit/service-list.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { makeToken, type Role, type TokenEntry } from '../../src/wire/tokens.ts';
import { env, type OwnRedis, redisConfig, until } from '../fakes/redis-kit.ts';
import { start } from './flow-kit.ts';

export class StreamSite {
  readonly redis: OwnRedis;
  readonly #t: TestContext;
  readonly #data: string;
  readonly #entries: TokenEntry[] = [];
  orchestrator!: Orchestrator;
  #services: ServiceList | undefined;

  constructor(t: TestContext, redis: OwnRedis, data: string) {
    this.#t = t;
    this.redis = redis;
    this.#data = data;
  }

  /** A token of this role; the entries of `:control` carry it. */
  token(role: Role, tenant = 'default'): string {
    const { token, entry } = makeToken(env.random, 0, `${role}-${tenant}`, role, tenant);
    this.#entries.push(entry);
    return token;
  }

  /** Jobs of type `work` succeed, those of type `fail` die. */
  async start(settings: Readonly<Record<string, unknown>> = {}, storeEnv: Env = env): Promise<void> {
    const fails = async (): Promise<never> => {
      throw new Error('it cannot be done');
    };
    const types = { work: async (payload: unknown) => ({ of: payload }), fail: fails };
    const backends = [new FunctionBackend(env, { name: 'local', slots: 100, types })];
    const orchestrator = await start(this.#t, { data: this.#data, backends, env: storeEnv });
    const redis = redisConfig({ url: this.redis.url, ...settings });
    const { ingest, control, events, claimIdleMs } = redis;
    const tokens = (): readonly TokenEntry[] => this.#entries;
    const connection = new RedisConnection({ env, logger: undefined, settings: redis });
    const reading = new RedisConnection({ env, logger: undefined, settings: redis });
    const shared = { env, logger: undefined, orchestrator };
    const tenants = (): string[] => this.#entries.map(({ tenant }) => tenant);
    this.orchestrator = orchestrator;
    this.#services = new ServiceList([
      connection,
      new DeadLetters({ ...shared, connection, tenants }),
      new Inbox({ ...shared, connection: reading, ingest, control, events, claimIdleMs, tokens }),
    ]);
    this.#t.after(() => this.#services?.stop());
    await this.#services.start();
  }

  async stop(): Promise<void> {
    await this.#services?.stop();
    await this.orchestrator.stop();
  }

  /** Submits a job that dies, and waits until it has. */
  async die(id: string, tenant = 'default'): Promise<void> {
    await this.orchestrator.submit({ type: 'fail', job_id: id, max_tries: 1 }, { tenant });
    await this.orchestrator.wait(id, tenant);
  }

  /** The same, and waits until this is in the DLQ and noted. */
  async dieAndBeMirrored(id: string): Promise<void> {
    const marks = () => this.orchestrator.moduleMarks.read('redis/dlq');
    const before = JSON.stringify(await marks());
    await this.die(id);
    await until(async () => JSON.stringify(await marks()) !== before);
  }

  add(stream: 'ingest_events' | 'control', ...fields: readonly string[]): Promise<unknown> {
    return this.redis.call('XADD', `stream:orchestrator:${stream}`, '*', ...fields);
  }

  async length(stream: 'ingest_events' | 'control'): Promise<unknown> {
    return this.redis.call('XLEN', `stream:orchestrator:${stream}`);
  }

  /** Entries that a brain has read and not acknowledged. */
  async pending(stream: 'ingest_events' | 'control'): Promise<unknown> {
    const reply = await this.redis
      .call('XPENDING', `stream:orchestrator:${stream}`, 'cg:orchestrator')
      .catch(() => [0]);
    return (reply as readonly unknown[])[0];
  }

  /** How many of the streams to the brain have its group. */
  async groups(): Promise<number> {
    const all = ['ingest_events', 'control'].map((stream) =>
      this.redis.call('XINFO', 'GROUPS', `stream:orchestrator:${stream}`).catch(() => []),
    );
    return (await Promise.all(all)).filter((groups) => (groups as unknown[]).length === 1).length;
  }

  /** Reads of streams by anybody so far. */
  async reads(): Promise<number> {
    const stats = String(await this.redis.call('INFO', 'commandstats'));
    return Number(/cmdstat_xreadgroup:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  }
}
