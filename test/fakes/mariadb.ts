/**
 * A MariaDB for tests: the one that TEST_MARIADB_URL names, or a private server on a socket in a folder of
 * ours, from a template that is made once. `npm test` starts one for all and names it that way.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { needDebian } from './debian.ts';
import { keptFolder } from './kept-folder.ts';

const run = promisify(execFile);
const START_MS = 60_000;

/** Makes the template where it is missing; a half made one is never used. */
const TEMPLATE = `
set -e
if [ ! -d "$1" ]; then
  rm -rf "$1.new"
  mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db --datadir="$1.new" \\
    $(test "$(id -u)" = 0 && echo --user=root) >/dev/null
  mv "$1.new" "$1"
fi
cp -a "$1" "$2"
`;

/** Variable with the address of the server that tests share; names with ORCHD_ would be read as settings. */
export const GIVEN = 'TEST_MARIADB_URL';

export interface TestServer {
  /** The address of a database that nobody else uses. */
  database(): Promise<string>;
  stop(): Promise<void>;
}

/** A server that a test may do to what it likes. */
export interface OwnServer extends TestServer {
  readonly url: string;
  kill(signal: NodeJS.Signals): Promise<void>;
  start(): Promise<void>;
}

export async function testMariaDb(): Promise<TestServer> {
  const given = process.env[GIVEN];
  return given === undefined ? ownMariaDb() : new GivenServer(given);
}

/** `folder`: where its data lie; a test that only kills may keep them in memory. */
export async function ownMariaDb(folder = tmpdir()): Promise<OwnServer> {
  const server = new PrivateServer(await needDebian('mariadb-server', 'mariadbd'), folder);
  await server.make();
  await server.start();
  return server;
}

let made = 0;

async function makeDatabase(url: string): Promise<string> {
  const name = `orchd_${process.pid}_${++made}`;
  const sql = await connector(url)();
  try {
    await sql.run(`CREATE DATABASE ${name}`);
  } finally {
    await sql.close();
  }
  const own = new URL(url);
  own.pathname = `/${name}`;
  return own.href;
}

class GivenServer implements TestServer {
  readonly #url: string;
  readonly #made: string[] = [];

  constructor(url: string) {
    this.#url = url;
  }

  async database(): Promise<string> {
    const url = await makeDatabase(this.#url);
    this.#made.push(new URL(url).pathname.slice(1));
    return url;
  }

  /** Drops the databases of this test file; the shared server goes on. */
  async stop(): Promise<void> {
    const sql = await connector(this.#url)();
    try {
      // A session that the server has not noticed the end of may hold a table; the database then stays until the run ends.
      await sql.run('SET SESSION lock_wait_timeout = 10');
      for (const name of this.#made.splice(0))
        await sql
          .run(`DROP DATABASE IF EXISTS ${name}`)
          .catch((error: Error) => console.log(`# ${error.message}`));
    } finally {
      await sql.close();
    }
  }
}

class PrivateServer implements OwnServer {
  readonly #program: string;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  constructor(program: string, folder: string) {
    this.#program = program;
    this.#folder = fs.mkdtempSync(join(folder, 'orchd-mariadb-'));
  }

  get #socket(): string {
    return join(this.#folder, 'socket');
  }

  get url(): string {
    return `mariadb://root@localhost/?socket=${encodeURIComponent(this.#socket)}`;
  }

  async make(): Promise<void> {
    const template = join(keptFolder(), 'orchd-tests-mariadb');
    await run('flock', [
      `${template}.lock`,
      'sh',
      '-c',
      TEMPLATE,
      'template',
      template,
      join(this.#folder, 'data'),
    ]);
  }

  async start(): Promise<void> {
    const args = [
      '--no-defaults',
      `--datadir=${join(this.#folder, 'data')}`,
      `--socket=${this.#socket}`,
      `--pid-file=${join(this.#folder, 'pid')}`,
      `--log-error=${join(this.#folder, 'log')}`,
      '--skip-networking',
      '--innodb-flush-log-at-trx-commit=1',
      '--innodb-buffer-pool-size=64M',
      '--innodb-log-file-size=32M',
      '--character-set-server=utf8mb4',
    ];
    if (process.getuid?.() === 0) args.push('--user=root');
    const child = spawn(this.#program, args, { stdio: 'ignore' });
    this.#child = child;
    process.once('exit', () => child.kill('SIGKILL'));
    const patience = Date.now() + START_MS;
    while (!(await this.#answers())) {
      if (child.exitCode === null && Date.now() < patience) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      throw new Error(`mariadbd did not start:\n${this.#log()}`);
    }
  }

  database(): Promise<string> {
    return makeDatabase(this.url);
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => {
      child.once('exit', resolve);
    });
    child.kill(signal);
    await gone;
  }

  async stop(): Promise<void> {
    await this.kill('SIGKILL');
    fs.rmSync(this.#folder, { recursive: true, force: true });
  }

  #log(): string {
    try {
      return fs.readFileSync(join(this.#folder, 'log'), 'utf8').slice(-2000);
    } catch {
      return 'it left no log';
    }
  }

  async #answers(): Promise<boolean> {
    let sql: Sql | undefined;
    try {
      sql = await connector(this.url)();
      return true;
    } catch {
      return false;
    } finally {
      await sql?.close();
    }
  }
}
