/** A brain, pool managers and their workers as the processes they are. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { PoolConfig } from '../../src/daemons/pool-manager/config.ts';
import { MARK_VARIABLE } from '../../src/daemons/pool-manager/layout.ts';
import { processesWith, signal } from '../../src/kit/process/identity.ts';
import type { PoolState, WorkerState } from '../../src/model/pool-wire.ts';
import { atEnd, PoolCaller } from '../fakes/pool-kit.ts';
import { type Running, start } from './cli-process.ts';
import { type Ends, type ServerOptions, type ServerProcess, serve, testFolder } from './server-process.ts';
import { Client, eventually, MIB } from './site-client.ts';

/** Whatever several tests of a file share, ended together after the last one: what was made last goes first. */
export class Shared {
  readonly #endings: (() => unknown)[] = [];

  after(run: () => unknown): void {
    this.#endings.push(run);
  }

  async end(): Promise<void> {
    for (const run of this.#endings.reverse()) await run();
  }
}

/** Clean-ups run in reverse order: a folder is needed until everything that works in it has ended. */
export const endsOf = (t: TestContext): Ends => ({ after: (run: unknown) => atEnd(t, run as () => unknown) });

export interface PoolProcess extends Running {
  readonly url: string;
  readonly caller: PoolCaller;
  kill(): Promise<void>;
}

export interface PoolProcessOptions {
  readonly folder: string;
  readonly id?: string;
  readonly brain?: string;
  readonly config?: PoolConfig;
  readonly env?: Readonly<Record<string, string>>;
}

const POOL: PoolConfig = {
  port: 0,
  cpu_memory: 1000 * MIB,
  pass_env: ['ORCHD_WORKER_LEDGER', 'ORCHD_WORKER_DEMO_DELAY_MS'],
  register_ms: 200,
  health_interval_ms: 200,
  health_timeout_ms: 1000,
  stop_grace_ms: 1000,
};

export async function poolProcess(t: Ends, options: PoolProcessOptions): Promise<PoolProcess> {
  const { folder, id = 'box', brain, config = {}, env = {} } = options;
  const file = join(folder, `${id}.yaml`);
  const data = join(folder, id);
  mkdirSync(folder, { recursive: true });
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ ...POOL, ...config }));
  const words = ['pool', '--config', file, '--data', data, '--id', id];
  const running = start(brain === undefined ? words : [...words, '--brain', brain], { env });
  const kill = async (): Promise<void> => {
    running.child.kill('SIGKILL');
    await running.ended;
  };
  // The workers end after their manager.
  t.after(async () => {
    await kill();
    endWorkers(data);
  });
  const banner = await running.saw('err', /press Ctrl-C to stop/);
  const url = /listens on (\S+)/.exec(banner)![1]!;
  return { ...running, url, caller: new PoolCaller(url), kill };
}

function endWorkers(data: string): void {
  const logs = join(data, 'logs');
  if (!existsSync(logs)) return;
  const { id } = JSON.parse(readFileSync(join(data, 'registry.json'), 'utf8')) as { id: string };
  for (const name of readdirSync(logs)) {
    for (const pid of processesWith(MARK_VARIABLE, `${id}/${name.replace(/\.log$/, '')}`))
      signal(pid, 'SIGKILL');
  }
}

export const pidOf = ({ registry }: PoolState, id: string): number => {
  const pids = processesWith(MARK_VARIABLE, `${registry}/${id}`);
  assert.equal(pids.length, 1, `${id} is one process`);
  return pids[0]!;
};

/** Settings that make a brain quick in tests. */
export const QUICK = {
  backends: { demo: false },
  orchestrator: {
    retry: { base_delay_ms: 20, max_delay_ms: 100 },
    recovery: { holder_lost_ms: 2000, sweep_interval_ms: 100 },
  },
  pools: { min_resident_sec: 0, drain_after_sec: 0, state_max_age_ms: 1000, prewarm: false },
};

export interface SiteOptions {
  readonly config?: object;
  readonly pool?: PoolConfig;
  readonly delayMs?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** A brain and a pool that has registered with it, in processes of their own. */
export class Site {
  readonly folder: string;
  readonly client = new Client('');
  readonly #t: Ends;
  readonly #options: SiteOptions;
  brain!: ServerProcess;
  pool!: PoolProcess;

  private constructor(t: Ends, options: SiteOptions) {
    this.#t = t;
    this.#options = options;
    this.folder = testFolder(t);
  }

  static async start(t: Ends, options: SiteOptions = {}): Promise<Site> {
    const site = new Site(t, options);
    await site.startBrain();
    await site.startPool();
    await site.heard();
    return site;
  }

  get ledgerFile(): string {
    return join(this.folder, 'ledger');
  }

  /** The token of every execution that has begun in an engine. */
  get ledger(): string[] {
    if (!existsSync(this.ledgerFile)) return [];
    const lines = readFileSync(this.ledgerFile, 'utf8').trim().split('\n');
    return lines.map((line) => line.split(' ')[0]!);
  }

  /** The arguments with which pools find the workers of the test's own server. */
  static told(url: string): PoolConfig {
    return { engines: [{ match: 'openai:*', engine: 'openai', args: ['--upstream', url] }] };
  }

  /** Number of executions of this job that have begun. */
  begun(job: string): number {
    return this.ledger.filter((token) => token.startsWith(`${job}:`)).length;
  }

  async startBrain(more: Partial<ServerOptions> = {}): Promise<void> {
    const config = { ...QUICK, ...this.#options.config };
    this.brain = await serve(this.#t, { data: join(this.folder, 'brain'), config, ...more });
    this.client.url = this.brain.url;
  }

  async startPool(config: PoolConfig = {}): Promise<void> {
    const { pool, delayMs = 20, env } = this.#options;
    this.pool = await poolProcess(this.#t, {
      folder: this.folder,
      brain: this.brain.url,
      config: { ...pool, ...config },
      env: {
        ORCHD_WORKER_LEDGER: this.ledgerFile,
        ORCHD_WORKER_DEMO_DELAY_MS: String(delayMs),
        ...env,
      },
    });
  }

  /** The brain knows that the pool is there. */
  heard(status = 'ok', pool = 'box'): Promise<unknown> {
    return eventually(`the pool is ${status}`, async () => {
      const { body } = await this.client.ask('GET', `/v2/pools/${pool}/health`);
      return body?.status === status;
    });
  }

  /** As the pool manager shows it. */
  async shown(id: string): Promise<WorkerState> {
    const worker = await this.pool.caller.worker(id);
    assert.ok(worker, `the pool shows ${id}`);
    return worker;
  }

  async pid(id: string): Promise<number> {
    return pidOf(await this.pool.caller.state(), id);
  }
}

export const words = (count: number, word = 'word'): string =>
  Array.from({ length: count }, (_, at) => `${word}${at}`).join(' ');
