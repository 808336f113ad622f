/** A connection that is made when it is first needed, shared by all callers, and replaced after it broke. */
import { OrchdError } from '../../model/errors.ts';
import { type Connect, isLost, type Sql } from './sql.ts';

export class SharedConnection {
  readonly #connect: Connect;
  #connection: Promise<Sql> | undefined;
  #isClosed = false;

  constructor(connect: Connect) {
    this.#connect = connect;
  }

  get(): Promise<Sql> {
    // A purge may still be under way when its store is closed: a connection that it made now would never be closed.
    if (this.#isClosed) return Promise.reject(new OrchdError('SHUTTING_DOWN'));
    if (!this.#connection) {
      const connection = this.#connect();
      this.#connection = connection;
      connection.catch(() => {
        // Another caller may have begun the next connection meanwhile: that one stays.
        if (this.#connection === connection) this.#connection = undefined;
      });
    }
    return this.#connection;
  }

  /** Runs something that may be run twice: where the connection broke, it is replaced and tried once more. */
  async read<T>(run: (sql: Sql) => Promise<T>): Promise<T> {
    try {
      return await this.once(run);
    } catch (error) {
      if (!isLost(error)) throw error;
    }
    try {
      return await this.once(run);
    } catch (error) {
      if (!isLost(error)) throw error;
      throw new OrchdError('STORE_BUSY', 'the database cannot be reached now', {}, { cause: error });
    }
  }

  /** Tries once; a connection that turns out to be broken is given up, and the next caller gets a new one. */
  async once<T>(run: (sql: Sql) => Promise<T>): Promise<T> {
    const connection = this.get();
    try {
      return await run(await connection);
    } catch (error) {
      // Another caller may have begun the next connection already: that one stays.
      if (isLost(error) && this.#connection === connection) {
        this.#connection = undefined;
        connection.then((sql) => sql.close()).catch(() => undefined);
      }
      throw error;
    }
  }

  /** Closes without waiting for a server that may never answer. */
  destroy(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    connection?.then((sql) => sql.destroy()).catch(() => undefined);
  }

  /** Closes for good. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.then((sql) => sql.close()).catch(() => undefined);
  }
}
