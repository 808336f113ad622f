/** The little of a database client that the store uses; the driver is loaded only when it is. */
import type { Connection, ConnectionConfig } from 'mariadb';
import { OrchdError } from '../../model/errors.ts';

export type Value = string | number | null | Buffer;
export type Row = Readonly<Record<string, never>>;

export interface Sql {
  query<T = Row>(sql: string, values?: readonly Value[]): Promise<T[]>;
  /** Returns how many rows were changed or found. */
  run(sql: string, values?: readonly Value[]): Promise<{ readonly rows: number; readonly id: number }>;
  /** One statement for many rows. */
  batch(sql: string, rows: readonly (readonly Value[])[]): Promise<void>;
  begin(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  close(): Promise<void>;
}

export type Connect = () => Promise<Sql>;

const CONNECT_MS = 5000;
const SOCKET_MS = 60_000;

/** `mariadb://user:password@host:port/database`, or with `?socket=/path` for a server on this machine. */
export function connector(url: string): Connect {
  const settings = settingsOf(url);
  return async () => {
    const { createConnection } = await loadDriver();
    return new DriverSql(await createConnection(settings));
  };
}

function settingsOf(url: string): ConnectionConfig {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const socketPath = searchParams.get('socket');
  return {
    ...(socketPath === null ? { host: hostname, port: Number(port || 3306) } : { socketPath }),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
    connectTimeout: CONNECT_MS,
    socketTimeout: SOCKET_MS,
    charset: 'utf8mb4',
    timezone: 'Z',
    bigIntAsNumber: true,
    insertIdAsNumber: true,
    foundRows: true,
    // What does not fit is an error: a text that was cut would be another text.
    initSql: "SET SESSION sql_mode='STRICT_ALL_TABLES', time_zone='+00:00', innodb_lock_wait_timeout=10",
  };
}

async function loadDriver(): Promise<typeof import('mariadb')> {
  try {
    return await import('mariadb');
  } catch (error) {
    const message = 'the store "mariadb" needs the package "mariadb": npm install mariadb';
    throw new OrchdError('CONFIG_INVALID', message, {}, { cause: error });
  }
}

class DriverSql implements Sql {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
    // A connection that breaks between two calls is noticed by the next one.
    connection.on('error', () => undefined);
  }

  query<T>(sql: string, values: readonly Value[] = []): Promise<T[]> {
    return this.#connection.query(sql, [...values]);
  }

  async run(sql: string, values: readonly Value[] = []) {
    const { affectedRows, insertId } = await this.#connection.query(sql, [...values]);
    return { rows: Number(affectedRows), id: Number(insertId) };
  }

  async batch(sql: string, rows: readonly (readonly Value[])[]): Promise<void> {
    if (rows.length > 0) await this.#connection.batch(sql, rows as Value[][]);
  }

  begin(): Promise<void> {
    return this.#connection.beginTransaction();
  }

  commit(): Promise<void> {
    return this.#connection.commit();
  }

  rollback(): Promise<void> {
    return this.#connection.rollback();
  }

  async close(): Promise<void> {
    try {
      await this.#connection.end();
    } catch {
      this.#connection.destroy();
    }
  }
}

const DEADLOCK = 1213;
const LOCK_WAIT = 1205;
const DISK_FULL = new Set([1021, 1041, 1114, 28]);

const errno = (error: unknown): number | undefined => (error as { errno?: number } | undefined)?.errno;

/** Another transaction was in the way: nothing of ours has happened, and the same may be tried again. */
export const isConflict = (error: unknown): boolean => [DEADLOCK, LOCK_WAIT].includes(errno(error) ?? 0);

export const isDiskFull = (error: unknown): boolean => DISK_FULL.has(errno(error) ?? 0);

/** The connection is gone: what was under way may or may not have happened. */
export function isLost(error: unknown): boolean {
  const { fatal, code } = (error ?? {}) as { fatal?: boolean; code?: string };
  return fatal === true || code === 'ECONNREFUSED' || code === 'ENOENT' || code === 'ECONNRESET';
}
