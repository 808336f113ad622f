/** A private PostgreSQL server that syncs its log at every commit, on a socket in the data folder of the bench. */
import { execFile, execFileSync } from 'node:child_process';
import { chmodSync, chownSync, globSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { needDebian } from '../../test/fakes/debian.ts';
import { type Daemon, startDaemon } from './daemon.ts';

const run = promisify(execFile);

/** Connection options for the `pg` client. */
export interface PostgresAddress {
  readonly host: string;
  readonly user: string;
  readonly database: string;
}

export interface RunningPostgres extends Daemon {
  /** Makes a database and returns its address. */
  database(): Promise<PostgresAddress>;
}

export async function startPostgres(folder: string): Promise<RunningPostgres> {
  const programs = await programFolder();
  const user = serverUser();
  mkdirSync(folder, { recursive: true });
  if (user) {
    chmodSync(dirname(folder), 0o711);
    chownSync(folder, user.uid, user.gid);
  }
  const data = join(folder, 'data');
  const make = ['--pgdata', data, '--username=bench', '--auth=trust', '--encoding=UTF8'];
  await run(join(programs, 'initdb'), make, { ...user, cwd: folder });
  const settings = {
    listen_addresses: '',
    unix_socket_directories: folder,
    fsync: 'on',
    synchronous_commit: 'on',
    // The same memory and log size as MariaDB in mariadbd.ts.
    shared_buffers: '512MB',
    max_wal_size: '1GB',
    max_connections: '200',
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const address = { host: folder, user: 'bench' };
  const connectArgs = ['--host', folder, '--username', 'bench'];
  const answers = (): Promise<boolean> =>
    run(join(programs, 'pg_isready'), [...connectArgs, '--dbname', 'postgres']).then(
      () => true,
      () => false,
    );
  const program = join(programs, 'postgres');
  const daemon = await startDaemon({
    program,
    args: ['-D', data, ...args],
    answers,
    user,
    stopSignal: 'SIGINT',
  });
  let made = 0;
  return {
    ...daemon,
    async database() {
      const database = `bench${++made}`;
      await run(join(programs, 'createdb'), [...connectArgs, database]);
      return { ...address, database };
    },
  };
}

/** The folder of the newest version's programs; Debian puts only wrappers on the PATH. */
async function programFolder(): Promise<string> {
  await needDebian('postgresql', 'pg_ctlcluster');
  const newest = globSync('/usr/lib/postgresql/*/bin/postgres').sort().at(-1);
  if (newest === undefined) throw new Error('the programs of PostgreSQL are not in /usr/lib/postgresql');
  return dirname(newest);
}

/** PostgreSQL refuses to run as root; Debian's package creates the user `postgres` for it. */
function serverUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (what: string): number => Number(execFileSync('id', [what, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}
