/** Several real nodes on one real database, work for them that leaves a trace, and what must hold in the end. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { connector } from '../../src/stores/mariadb/sql.ts';
import type { TestServer } from '../fakes/mariadb.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

export interface LeaderView {
  readonly is_leader: boolean;
  readonly leader: string | null;
  readonly epoch: number | null;
}

export interface Job {
  readonly state: string;
  readonly attempts: readonly unknown[];
}

interface HowToStart {
  readonly config?: object;
  readonly within?: readonly string[];
  readonly port?: string;
  /** Data folder of a node on a machine of its own: other nodes cannot see what runs there. */
  readonly data?: string;
  /** Further words of the command line. */
  readonly args?: readonly string[];
}

const LEASE_MS = 2000;

/** Notes the job in a ledger, says three words, and ends when it is let go. */
const WORK =
  'p=$(cat); echo "$p" >> "$0/ledger"; echo one; while [ -e "$0/hold" ]; do sleep 0.02; done; echo two; echo three';

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

export class Cluster {
  readonly #t: TestContext;
  readonly url: string;
  readonly folder: string;
  /** Everything that was acknowledged. */
  readonly told = new Set<string>();

  private constructor(t: TestContext, url: string) {
    this.#t = t;
    this.url = url;
    this.folder = testFolder(t);
    mkdirSync(this.folder, { recursive: true });
  }

  static async on(t: TestContext, server: TestServer): Promise<Cluster> {
    return new Cluster(t, await server.database());
  }

  /** Nodes of one machine: they share the folder in which commands are executed. */
  get data(): string {
    return join(this.folder, 'data');
  }

  config(node: string, { url = this.url, leaseMs = LEASE_MS } = {}): object {
    const work = { argv: ['/bin/sh', '-c', WORK, this.folder] };
    return {
      store: 'mariadb',
      mariadb: { url },
      cluster: { node, lease_ms: leaseMs, hold_ms: 60_000 },
      orchestrator: { recovery: { holder_lost_ms: 2000, sweep_interval_ms: 200 } },
      backends: { demo: false, commands: [{ name: 'sh', slots: 4, types: { work } }] },
    };
  }

  start(node: string, { config = this.config(node), ...how }: HowToStart = {}): Promise<ServerProcess> {
    const configFile = join(this.folder, `${node}.yaml`);
    return serve(this.#t, { data: this.data, config, configFile, ...how });
  }

  /** The data folder of a node on a machine of its own. */
  dataOf(node: string): string {
    return join(this.folder, `machine-${node}`);
  }

  hold(): void {
    writeFileSync(join(this.folder, 'hold'), '');
  }

  letGo(): void {
    rmSync(join(this.folder, 'hold'), { force: true });
  }

  /** Until it is acknowledged: an id of its own makes it safe to ask again. */
  async submit(node: { readonly url: string }, id: string): Promise<void> {
    for (;;) {
      try {
        const { status } = await fetch(`${node.url}/v2/tasks`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...this.headers },
          body: JSON.stringify({ job_id: id, type: 'work', payload: id }),
          signal: AbortSignal.timeout(60_000),
        });
        if (status === 202) break;
        assert.ok(status >= 500, `it answered ${status}`);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
      }
      await pause();
    }
    this.told.add(id);
  }

  headers: Record<string, string> = {};

  async get<T>(node: { readonly url: string }, path: string): Promise<T> {
    const response = await fetch(`${node.url}${path}`, { headers: this.headers });
    return (await response.json()) as T;
  }

  leaderOf(node: { readonly url: string }): Promise<LeaderView> {
    return this.get(node, '/leader');
  }

  async until(holds: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await Promise.resolve(holds()).catch(() => false))) await pause();
  }

  async leads(node: { readonly url: string }): Promise<void> {
    await this.until(async () => (await this.leaderOf(node)).is_leader);
  }

  ledger(): string[] {
    const file = join(this.folder, 'ledger');
    if (!existsSync(file)) return [];
    // A file that was just created, or a line that is being written, is not read yet.
    const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as string);
  }

  /** Everything that was acknowledged has ended well, and ran once. */
  async allEndedOnce(node: { readonly url: string }): Promise<void> {
    for (const id of this.told) {
      await this.until(async () => (await this.get<Job>(node, `/v2/tasks/${id}`)).state === 'succeeded');
    }
    assert.deepEqual(this.ledger().sort(), [...this.told].sort(), 'every job has run once');
  }

  /** Every change left its row, and none of a leader that had been replaced. */
  async trailIsWhole(): Promise<void> {
    const sql = await connector(this.url)();
    try {
      // A single statement, because the leader goes on writing.
      const [row] = await sql.query<{ rows: number; last: number; seq: number }>(
        `SELECT (SELECT COUNT(*) FROM orchestrator_audit) AS \`rows\`, (SELECT MAX(id) FROM orchestrator_audit) AS last,
           last_seq AS seq FROM orchestrator_epoch`,
      );
      assert.deepEqual([row?.rows, row?.last], [row?.seq, row?.seq], 'audit rows = changes');
      const late = await sql.query(
        `SELECT a.id FROM orchestrator_audit a JOIN orchestrator_audit b ON b.id = a.id - 1 WHERE a.epoch < b.epoch`,
      );
      assert.deepEqual(late, [], 'no write with an old epoch');
    } finally {
      await sql.close();
    }
  }
}
