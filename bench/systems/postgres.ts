/** A private PostgreSQL that syncs its log before every answer, on a socket in a folder of ours. */
import { execFile, execFileSync } from 'node:child_process';
import { chmodSync, chownSync, globSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { needDebian } from '../../test/fakes/debian.ts';
import { type Daemon, startDaemon } from './daemon.ts';

const run = promisify(execFile);

/** As a client of `pg` takes it. */
export interface PostgresAddress {
  readonly host: string;
  readonly user: string;
  readonly database: string;
}

export interface RunningPostgres extends Daemon {
  /** The address of a new database. */
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
    // As much memory and log as MariaDB gets beside it.
    shared_buffers: '512MB',
    max_wal_size: '1GB',
    max_connections: '200',
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const where = { host: folder, user: 'bench' };
  const asked = ['--host', folder, '--username', 'bench'];
  const answers = (): Promise<boolean> =>
    run(join(programs, 'pg_isready'), [...asked, '--dbname', 'postgres']).then(
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
      await run(join(programs, 'createdb'), [...asked, database]);
      return { ...where, database };
    },
  };
}

/** Debian keeps the programs of each version apart, and only its wrappers on the PATH. */
async function programFolder(): Promise<string> {
  await needDebian('postgresql', 'pg_ctlcluster');
  const newest = globSync('/usr/lib/postgresql/*/bin/postgres').sort().at(-1);
  if (newest === undefined) throw new Error('the programs of PostgreSQL are not in /usr/lib/postgresql');
  return dirname(newest);
}

/** It refuses to be root: Debian's package brings a user for it. */
function serverUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (what: string): number => Number(execFileSync('id', [what, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}
