/** A cluster of three nodes on one database, and the executor that they share. */
import { join } from 'node:path';
import { SharedConnection } from '../../src/stores/mariadb/shared-connection.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { type BackgroundProcess, startProcess } from '../kit/background-process.ts';
import { sleep } from '../kit/numbers.ts';
import { type NodeArgs, start } from './cluster-node.ts';
import { Executor } from './executor.ts';

const NAMES = ['a', 'b', 'c'] as const;
const POLL_INTERVAL_MS = 5;

export class Cluster implements AsyncDisposable {
  readonly executor = new Executor();
  readonly #args: Omit<NodeArgs, 'name'>;
  readonly #nodes = new Map<string, BackgroundProcess<string>>();
  readonly #connection: SharedConnection;

  private constructor(args: Omit<NodeArgs, 'name'>) {
    this.#args = args;
    this.#connection = new SharedConnection(connector(args.database));
  }

  static async start(folder: string, database: string, slots: number): Promise<Cluster> {
    const executor = join(folder, 'executor');
    const cluster = new Cluster({ folder: join(folder, 'nodes'), database, executor, slots });
    await cluster.executor.listen(executor);
    for (const name of NAMES) await cluster.startNode(name);
    return cluster;
  }

  async startNode(name: string): Promise<void> {
    const module = { start, url: new URL('./cluster-node.ts', import.meta.url).href };
    this.#nodes.set(name, await startProcess(`node-${name}`, module, { ...this.#args, name }));
  }

  /** Kills a node with SIGKILL. */
  killNode(name: string): void {
    process.kill(this.#node(name).pid, 'SIGKILL');
    this.#nodes.delete(name);
  }

  urlOf(name: string): string {
    return this.#node(name).value;
  }

  get names(): readonly string[] {
    return [...this.#nodes.keys()].sort();
  }

  /** The name of the node that leads and has recovered. */
  async leader(): Promise<string> {
    for (;;) {
      for (const name of this.names) if (await this.#isLeader(name)) return name;
      await sleep(POLL_INTERVAL_MS);
    }
  }

  /** The epoch of the election, read from the database, since a recovering node is too busy to answer. */
  async epoch(): Promise<number> {
    const select = 'SELECT epoch FROM orchestrator_epoch WHERE id = 1';
    const [row] = await this.#connection.read((sql) => sql.query<{ epoch: number }>(select));
    return row?.epoch ?? 0;
  }

  async elected(after: number): Promise<void> {
    while ((await this.epoch()) <= after) await sleep(POLL_INTERVAL_MS);
  }

  async liveJobs(): Promise<number> {
    const count = 'SELECT COUNT(*) AS jobs FROM orchestrator_jobs WHERE is_terminal = 0';
    const [row] = await this.#connection.read((sql) => sql.query<{ jobs: number }>(count));
    return row?.jobs ?? 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.#nodes.values()) await node[Symbol.asyncDispose]();
    this.executor.close();
    await this.#connection.close();
  }

  #node(name: string): BackgroundProcess<string> {
    const node = this.#nodes.get(name);
    if (!node) throw new Error(`node ${name} does not run`);
    return node;
  }

  async #isLeader(name: string): Promise<boolean> {
    const response = await fetch(`${this.urlOf(name)}/leader`);
    return ((await response.json()) as { is_leader: boolean }).is_leader;
  }
}
