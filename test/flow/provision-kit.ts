/** A server with worker pools of `orchd provision`, and what their rows and their processes say. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { freePort } from '../../src/kit/free-port.ts';
import { processesBy } from '../../src/kit/process/identity.ts';
import type { WorkerPoolView } from '../../src/model/http/worker-pools.ts';
import { type HowToRun, type Running, start } from './cli-process.ts';
import { aMoment, ConsumerSite } from './consumer-kit.ts';
import { isDatabase } from './flow-kit.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

const CONSUMER = join(import.meta.dirname, '..', 'fakes', 'consumer.py');
const MARK = 'ORCHD_PROVISION_NAME';

export interface ProvisionOptions extends HowToRun {
  /** Words before the command. */
  readonly words?: readonly string[];
  /** By default a consumer of the pool `p` in Python, whose jobs say what they do. */
  readonly command?: readonly string[];
}

export class ProvisionSite extends ConsumerSite {
  readonly #test: TestContext;
  readonly #open: () => Promise<ServerProcess>;
  #brain: ServerProcess;
  readonly state: string;
  leaseTtlMs = 120_000;

  private constructor(
    t: TestContext,
    folder: string,
    brain: ServerProcess,
    open: () => Promise<ServerProcess>,
  ) {
    super(t, brain.url, folder);
    this.#test = t;
    this.#brain = brain;
    this.#open = open;
    this.state = join(folder, 'provision');
    t.after(() => this.#killAll());
  }

  static async of(t: TestContext, data?: string, config: object = {}): Promise<ProvisionSite> {
    const folder = testFolder(t);
    const port = String(await freePort());
    const store = data !== undefined && isDatabase(data) ? { store: 'mariadb', mariadb: { url: data } } : {};
    const open = () => serve(t, { data: join(folder, 'data'), port, config: { ...config, ...store } });
    return new ProvisionSite(t, folder, await open(), open);
  }

  async killBrain(): Promise<void> {
    await this.#brain.kill();
    this.#brain = await this.#open();
  }

  provision({ words = [], command = this.consumer(), ...how }: ProvisionOptions = {}): Running {
    const all = ['provision', '--state', this.state, '--interval', '200ms', '--url', this.url];
    const running = start([...all, ...words, '--', ...command], how);
    this.#test.after(async () => {
      running.child.kill('SIGKILL');
      await running.ended;
    });
    return running;
  }

  consumer(pool = 'p'): readonly string[] {
    const { url, ledger, leaseTtlMs } = this;
    const program = { url, ledger, pool, slots: 2, leaseTtlMs, graceMs: 600_000 };
    return ['python3', '-B', CONSUMER, JSON.stringify(program)];
  }

  async kill(running: Running): Promise<void> {
    running.child.kill('SIGKILL');
    await running.ended;
  }

  pool(id = 'p'): Promise<WorkerPoolView> {
    return this.asked(() => this.call<WorkerPoolView>('GET', `/workers/pool/${id}`));
  }

  create(desired: number, id = 'p', more: object = {}): Promise<WorkerPoolView> {
    const body = { pool_id: id, desired_workers: desired, ...more };
    return this.call<WorkerPoolView>('POST', '/workers/pool', body);
  }

  resize(desired: number, id = 'p'): Promise<WorkerPoolView> {
    return this.call<WorkerPoolView>('PUT', `/workers/pool/${id}`, { desired_workers: desired });
  }

  order(order: 'drain' | 'evict', id = 'p'): Promise<WorkerPoolView> {
    return this.call<WorkerPoolView>(
      'POST',
      `/workers/pool/${id}/${order}`,
      order === 'drain' ? {} : undefined,
    );
  }

  /** The pids of all that was started for a worker pool, commands of consumers included. */
  pids(id = 'p'): number[] {
    const registry = this.#registry();
    const found = [...processesBy(MARK)].filter(([name]) => name.startsWith(`${registry}/${id}.`));
    return found.flatMap(([, pids]) => pids).sort((a, b) => a - b);
  }

  /** Waits until row and processes agree: so many, with this status. */
  async agree(count: number, status: WorkerPoolView['status'], id = 'p'): Promise<number[]> {
    for (;;) {
      const row = await this.pool(id);
      const pids = this.pids(id);
      if (row.status === status && row.spawned_workers === count && pids.length === count) return pids;
      await aMoment();
    }
  }

  /** `provision.json` is there once a provisioner has started. */
  #registry(): string {
    try {
      return JSON.parse(readFileSync(join(this.state, 'provision.json'), 'utf8')).id;
    } catch {
      return 'none';
    }
  }

  #killAll(): void {
    const registry = this.#registry();
    for (const [name, pids] of processesBy(MARK))
      if (name.startsWith(`${registry}/`)) for (const pid of pids) killed(pid);
  }
}

function killed(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}

/** Each token once, whatever was killed meanwhile. */
export function assertOnce(tokens: readonly string[]): void {
  assert.deepEqual(
    tokens.filter((token, at) => tokens.indexOf(token) !== at),
    [],
    'these have begun twice',
  );
}
