/** Commits that wait until a test lets them go on: flushes of the journal's log, or the fence row of a database. */
import type { DiskFile, Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { hookedDisk, isDatabase, within } from './flow-kit.ts';

export interface Held {
  /** Environment to start a brain in. */
  readonly env: Env;
  /** From now on nothing becomes durable. */
  hold(): Promise<void>;
  release(): Promise<void>;
  /** The commit that waits never becomes durable: the disk refuses it, or another node leads now. */
  refuse(): Promise<void>;
  /** Lets one commit become durable, and returns when the next one waits: by then it was told. */
  releaseOne(): Promise<void>;
  /** A commit has begun and waits to become durable. */
  commitWaits(): Promise<void>;
}

export const holdable = (data: string): Held => (isDatabase(data) ? new HeldFence(data) : new HeldFlushes());

class HeldFlushes implements Held {
  readonly env: Env;
  #gate: PromiseWithResolvers<void> | undefined;
  #watchers: (() => void)[] = [];
  /** Flushes so far, and those that wait now. */
  #flushes = 0;
  #waiting = 0;

  constructor() {
    const disk = hookedDisk((path, file) => (path.endsWith('.log') ? this.#held(file) : file));
    this.env = { ...realEnv(), disk };
  }

  async hold(): Promise<void> {
    this.#gate ??= Promise.withResolvers<void>();
  }

  async release(): Promise<void> {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  async refuse(): Promise<void> {
    this.#gate?.reject(new Error('the disk is broken'));
    this.#gate = undefined;
  }

  async releaseOne(): Promise<void> {
    const before = this.#flushes;
    this.#gate?.resolve();
    this.#gate = Promise.withResolvers<void>();
    await this.#until(() => this.#flushes > before);
  }

  async commitWaits(): Promise<void> {
    await this.#until(() => this.#waiting > 0);
  }

  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await within(new Promise<void>((resolve) => this.#watchers.push(resolve)));
  }

  #held(file: DiskFile): DiskFile {
    const sync = file.datasync.bind(file);
    file.datasync = async () => {
      this.#flushes++;
      this.#waiting++;
      for (const wake of this.#watchers.splice(0)) wake();
      await this.#gate?.promise;
      this.#waiting--;
      await sync();
    };
    return file;
  }
}

const TAKE = 'SELECT id FROM orchestrator_epoch WHERE id = 1 FOR UPDATE';
/** Counts connections that wait for the row of the fence; the one that holds it shows no statement. */
const IN_LINE = `SELECT COUNT(*) AS count FROM information_schema.processlist
  WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE ?`;
const COMMITS = 'UPDATE orchestrator_epoch%';
/** Far more than a commit takes to get in line. */
const MAX_LOOKS = 20_000;

/** Another connection has the row that every commit begins with. */
class HeldFence implements Held {
  readonly env = realEnv();
  readonly #url: string;
  #holder: Sql | undefined;

  constructor(url: string) {
    this.#url = url;
  }

  async hold(): Promise<void> {
    this.#holder ??= await this.#take();
  }

  async release(): Promise<void> {
    const holder = this.#holder;
    this.#holder = undefined;
    // A transaction ends with its connection.
    await holder?.close();
  }

  async refuse(): Promise<void> {
    await this.#holder?.query('UPDATE orchestrator_epoch SET epoch = epoch + 1');
    await this.#holder?.commit();
    await this.release();
  }

  /** The row is given in the order of asking: to the commit that waits, then to the next holder. */
  async releaseOne(): Promise<void> {
    const next = this.#take();
    await this.#inLine(TAKE);
    await this.release();
    this.#holder = await next;
    await this.commitWaits();
  }

  commitWaits(): Promise<void> {
    return this.#inLine(COMMITS);
  }

  async #take(): Promise<Sql> {
    const sql = await connector(this.#url)();
    await sql.begin();
    await sql.query(TAKE);
    return sql;
  }

  async #inLine(statement: string): Promise<void> {
    const sql = await connector(this.#url)();
    try {
      for (let look = 0; look < MAX_LOOKS; look++) {
        const [row] = await sql.query<{ count: number }>(IN_LINE, [statement]);
        if (row?.count === 1) return;
      }
      throw new Error('nobody waits for the fence row');
    } finally {
      await sql.close();
    }
  }
}
