/** A private MariaDB server that syncs its log at every commit, on a socket in the data folder of the bench. */
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { needDebian } from '../../test/fakes/debian.ts';
import { type Daemon, startDaemon } from './daemon.ts';

export interface RunningMariaDb extends Daemon {
  /** Makes a database and returns its address. */
  database(): Promise<string>;
}

const asRoot = process.getuid?.() === 0 ? ['--user=root'] : [];

export async function startMariaDb(folder: string): Promise<RunningMariaDb> {
  const program = await needDebian('mariadb-server', 'mariadbd');
  mkdirSync(folder, { recursive: true });
  const data = join(folder, 'data');
  const make = ['--no-defaults', '--auth-root-authentication-method=normal', '--skip-test-db'];
  await promisify(execFile)('mariadb-install-db', [...make, `--datadir=${data}`, ...asRoot]);
  const socket = join(folder, 'socket');
  const args = [
    '--no-defaults',
    `--datadir=${data}`,
    `--socket=${socket}`,
    `--pid-file=${join(folder, 'pid')}`,
    `--log-error=${join(folder, 'log')}`,
    '--skip-networking',
    '--innodb-flush-log-at-trx-commit=1',
    // The same memory and log size as PostgreSQL in postgres.ts.
    '--innodb-buffer-pool-size=512M',
    '--innodb-log-file-size=1G',
    ...asRoot,
  ];
  const url = `mariadb://root@localhost/?socket=${encodeURIComponent(socket)}`;
  const daemon = await startDaemon({ program, args, answers: () => answers(url) });
  let made = 0;
  return {
    ...daemon,
    async database() {
      const own = new URL(url);
      own.pathname = `/bench${++made}`;
      await withLine(url, (sql) => sql.run(`CREATE DATABASE bench${made}`));
      return own.href;
    },
  };
}

async function withLine(url: string, run: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = await connector(url)();
  try {
    await run(sql);
  } finally {
    await sql.close();
  }
}

const answers = (url: string): Promise<boolean> =>
  withLine(url, async () => undefined).then(
    () => true,
    () => false,
  );
