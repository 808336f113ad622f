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
      return await run(await this.line());
    } catch (error) {
      if (!isLost(error)) throw error;
      this.drop();
    }
    try {
      return await run(await this.line());
    } catch (error) {
      if (!isLost(error)) throw error;
      this.drop();
      throw new OrchdError('STORE_BUSY', 'the database cannot be reached now', {}, { cause: error });
    }
  }

  /** It is broken: the next caller gets another one. */
  drop(): void {
    const line = this.#line;
    this.#line = undefined;
    line?.then((sql) => sql.close()).catch(() => undefined);
  }

  async close(): Promise<void> {
    const line = this.#line;
    this.#line = undefined;
    await line?.then((sql) => sql.close()).catch(() => undefined);
  }
}
