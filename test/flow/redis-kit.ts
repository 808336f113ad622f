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
import { env, type OwnRedis, redisConfig } from '../fakes/redis-kit.ts';
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
    const { ingest, control, events } = redis;
    const tokens = (): readonly TokenEntry[] => this.#entries;
    const connection = new RedisConnection({ env, logger: undefined, settings: redis });
    const reading = new RedisConnection({ env, logger: undefined, settings: redis });
    const shared = { env, logger: undefined, orchestrator };
    const tenants = (): string[] => this.#entries.map(({ tenant }) => tenant);
    this.orchestrator = orchestrator;
    this.#services = new ServiceList([
      connection,
      new DeadLetters({ ...shared, connection, tenants }),
      new Inbox({ ...shared, connection: reading, ingest, control, events, tokens }),
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

  add(stream: 'ingest_events' | 'control', ...fields: readonly string[]): Promise<unknown> {
    return this.redis.call('XADD', `stream:orchestrator:${stream}`, '*', ...fields);
  }

  async length(stream: 'ingest_events' | 'control'): Promise<unknown> {
    return this.redis.call('XLEN', `stream:orchestrator:${stream}`);
  }
}
