/** The part of a database client that the store uses; the driver is loaded when the first connection is made. */
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import type { Connection, ConnectionConfig } from 'mariadb';
import { OrchdError } from '../../model/errors.ts';

export type Value = string | number | null | Buffer;
export type Row = Readonly<Record<string, never>>;

/**
 * One connection. A call may be made before earlier calls are answered: the server executes it after every query and
 * run that was called before it, but a batch may be overtaken while its statement is prepared.
 */
export interface Sql {
  query<T = Row>(sql: string, values?: readonly Value[]): Promise<T[]>;
  /** `rows` is how many rows the statement found or changed, `id` the AUTO_INCREMENT value it has made. */
  run(sql: string, values?: readonly Value[]): Promise<{ readonly rows: number; readonly id: number }>;
  /** Executes one statement for many rows of values. */
  batch(sql: string, rows: readonly (readonly Value[])[]): Promise<void>;
  begin(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  close(): Promise<void>;
  /** Closes the socket at once, without telling a server that may not answer; calls under way fail. */
  destroy(): void;
  /** Calls the listener once, when the connection is gone: also while no call is under way. */
  onLost(listener: () => void): void;
}

export interface ConnectOptions {
  /** A connection on which nothing arrives for this long while a call is under way is lost. */
  readonly silentMs?: number;
}

export type Connect = (options?: ConnectOptions) => Promise<Sql>;

/** Runs all of it or nothing; a connection is never left with a transaction open. */
export async function transaction<T>(sql: Sql, run: () => Promise<T>): Promise<T> {
  await sql.begin();
  try {
    const value = await run();
    await sql.commit();
    return value;
  } catch (error) {
    if (!isLost(error)) await sql.rollback();
    throw error;
  }
}

/**
 * Settings of every session. STRICT_ALL_TABLES: a text that does not fit its column is an error, not a shorter text.
 * idle_transaction_timeout: a client that is stopped or cut off within a transaction must not keep its locks.
 */
const SESSION =
  "SET SESSION sql_mode='STRICT_ALL_TABLES', time_zone='+00:00', innodb_lock_wait_timeout=10, idle_transaction_timeout=2";

const CONNECT_MS = 5000;
const SOCKET_MS = 60_000;

/** `mariadb://user:password@host:port/database`, or with `?socket=/path` for a server on this machine. */
export function connector(url: string): Connect {
  const settings = settingsOf(url);
  const place = placeOf(url);
  return async ({ silentMs = SOCKET_MS } = {}) => {
    const { createConnection } = await loadDriver();
    const socket = connect(place);
    socket.setNoDelay(true);
    try {
      const given = { ...settings, socketTimeout: silentMs, stream: () => socket };
      return new DriverSql(await createConnection(given), socket);
    } catch (error) {
      socket.destroy();
      throw error;
    }
  };
}

function placeOf(url: string): NetConnectOpts {
  const { hostname, port, searchParams } = new URL(url);
  const path = searchParams.get('socket');
  return path === null ? { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 3306) } : { path };
}

function settingsOf(url: string): ConnectionConfig {
  const { username, password, pathname } = new URL(url);
  return {
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
    connectTimeout: CONNECT_MS,
    charset: 'utf8mb4',
    timezone: 'Z',
    bigIntAsNumber: true,
    insertIdAsNumber: true,
    foundRows: true,
    // Errors show the statement, never its values: these are the data of callers.
    logParam: false,
    initSql: SESSION,
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
  /** Calls without an answer so far: the driver forgets some of them when the server dies, so they are rejected here. */
  readonly #unanswered = new Set<(error: Error) => void>();
  readonly #lostListeners: (() => void)[] = [];
  #broken: Error | undefined;
  /** True while the server commits every statement by itself. */
  #autocommit = true;
  #inTransaction = false;
  /** A statement that ends a transaction or turns autocommit on, while it is under way. */
  #switching: Promise<void> | undefined;

  /**
   * The socket is made here and not by the driver. To end a connection with a call under way, the driver would open
   * another connection and kill the server thread by its number, which may belong to another client by then.
   */
  readonly #socket: Socket;

  constructor(connection: Connection, socket: Socket) {
    this.#connection = connection;
    this.#socket = socket;
    connection.on('error', (error: Error) => this.#break(error));
    socket.once('close', () => this.#break(connectionLost()));
  }

  onLost(listener: () => void): void {
    if (this.#broken) listener();
    else this.#lostListeners.push(listener);
  }

  query<T>(sql: string, values: readonly Value[] = []): Promise<T[]> {
    return this.#send(() => this.#connection.query(sql, [...values]));
  }

  async run(sql: string, values: readonly Value[] = []) {
    const { affectedRows, insertId } = await this.#send(() => this.#connection.query(sql, [...values]));
    return { rows: Number(affectedRows), id: Number(insertId) };
  }

  async batch(sql: string, rows: readonly (readonly Value[])[]): Promise<void> {
    if (rows.length > 0) await this.#send(() => this.#connection.batch(sql, rows as Value[][]));
  }

  /**
   * Transactions begin by `autocommit = 0`, not by START TRANSACTION: a deadlock ends a transaction in its middle, and
   * statements that were sent behind the deadlock without waiting would then be committed one by one. The setting
   * stays for the next transaction, which needs no round trip to begin; a statement outside of a transaction turns
   * autocommit on again first.
   */
  async begin(): Promise<void> {
    while (this.#switching !== undefined) await this.#switching;
    if (this.#autocommit) {
      await this.run('SET autocommit = 0');
      this.#autocommit = false;
    }
    this.#inTransaction = true;
  }

  commit(): Promise<void> {
    return this.#end('COMMIT');
  }

  async rollback(): Promise<void> {
    try {
      await this.#end('ROLLBACK');
    } catch (error) {
      // The transaction may still be open. The server rolls it back when the connection ends, so it ends now.
      this.destroy();
      throw error;
    }
  }

  async #end(how: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    const ended = this.#call(() => this.#connection.query(how)).then(() => {
      this.#inTransaction = false;
    });
    // Later statements on this connection wait for the end of the transaction; only the caller of #end gets its error.
    this.#switch(ended.catch(() => undefined));
    await ended;
  }

  async close(): Promise<void> {
    try {
      await this.#call(() => this.#connection.end());
    } catch {
      // The connection was broken already.
    }
    this.#break(new OrchdError('SHUTTING_DOWN'));
  }

  destroy(): void {
    this.#break(connectionLost());
  }

  /** Sends at once, or after a switch of autocommit that is under way or needed; statements keep their order. */
  async #send<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      if (!this.#switching && !this.#autocommit && !this.#inTransaction) this.#switch(this.#turnOn());
      if (!this.#switching) return this.#call(ask);
      await this.#switching;
    }
  }

  async #turnOn(): Promise<void> {
    await this.#call(() => this.#connection.query('SET autocommit = 1'));
    this.#autocommit = true;
  }

  #switch(over: Promise<void>): void {
    const switching = over.finally(() => {
      if (this.#switching === switching) this.#switching = undefined;
    });
    switching.catch(() => undefined);
    this.#switching = switching;
  }

  #call<T>(ask: () => Promise<T>): Promise<T> {
    // The driver would never answer a call on a broken connection.
    if (this.#broken) return Promise.reject(this.#broken);
    return new Promise<T>((resolve, reject) => {
      this.#unanswered.add(reject);
      ask().then(
        (answer) => {
          this.#unanswered.delete(reject);
          resolve(answer);
        },
        (error: Error) => {
          this.#unanswered.delete(reject);
          reject(error);
          if (isLost(error)) this.#break(error);
        },
      );
    });
  }

  /** A call has found the connection dead: all calls without an answer fail. */
  #break(error: Error): void {
    this.#broken ??= isLost(error) ? error : connectionLost();
    this.#socket.destroy(this.#broken);
    for (const reject of [...this.#unanswered]) reject(error);
    this.#unanswered.clear();
    for (const listener of this.#lostListeners.splice(0)) listener();
  }
}

/** An error as the driver makes it for a connection that is gone. */
const connectionLost = (): Error => Object.assign(new Error('the connection was given up'), { fatal: true });

const DEADLOCK = 1213;
const LOCK_WAIT = 1205;
/** KILL QUERY: somebody ended the statement, not the connection. */
const INTERRUPTED = 1317;
/** read_only is set on the server, for a backup or a fail-over for example: it may be writable again soon. */
const READ_ONLY = new Set([1290, 1836]);
const DISK_FULL = new Set([1021, 1041, 1114, 28]);

const errno = (error: unknown): number | undefined => (error as { errno?: number } | undefined)?.errno;

/** Another transaction was in the way: nothing of this one was written, and it may be tried again. */
export const isConflict = (error: unknown): boolean =>
  [DEADLOCK, LOCK_WAIT, INTERRUPTED].includes(errno(error) ?? 0);

/** The server takes no writes at present: nothing was written, and it may be tried again. */
export const isReadOnly = (error: unknown): boolean => READ_ONLY.has(errno(error) ?? 0);

export const isDiskFull = (error: unknown): boolean => DISK_FULL.has(errno(error) ?? 0);

/** The connection is gone: a statement that was under way may or may not have been executed. */
export function isLost(error: unknown): boolean {
  const { fatal, code } = (error ?? {}) as { fatal?: boolean; code?: string };
  return fatal === true || code === 'ECONNREFUSED' || code === 'ENOENT' || code === 'ECONNRESET';
}
