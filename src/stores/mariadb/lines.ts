/** A connection that is made when it is needed, shared, and made anew after it broke. */
import { OrchdError } from '../../model/errors.ts';
import { type Connect, isLost, type Sql } from './sql.ts';

export class Lines {
  readonly #connect: Connect;
  #line: Promise<Sql> | undefined;

  constructor(connect: Connect) {
    this.#connect = connect;
  }

  line(): Promise<Sql> {
    if (!this.#line) {
      const line = this.#connect();
      this.#line = line;
      line.catch(() => {
        // Unless somebody has begun another one meanwhile.
        if (this.#line === line) this.#line = undefined;
      });
    }
    return this.#line;
  }

  /** Asks something that may be asked again: a line that broke meanwhile is replaced once. */
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

  /** One try; a line that turns out to be broken is given up, and the next caller gets another one. */
  async once<T>(run: (sql: Sql) => Promise<T>): Promise<T> {
    const line = this.line();
    try {
      return await run(await line);
    } catch (error) {
      // Only this one: somebody else may have begun the next already.
      if (isLost(error) && this.#line === line) {
        this.#line = undefined;
        line.then((sql) => sql.close()).catch(() => undefined);
      }
      throw error;
    }
  }

  /** For a server that may never answer. */
  destroy(): void {
    const line = this.#line;
    this.#line = undefined;
    line?.then((sql) => sql.destroy()).catch(() => undefined);
  }

  async close(): Promise<void> {
    const line = this.#line;
    this.#line = undefined;
    await line?.then((sql) => sql.close()).catch(() => undefined);
  }
}
