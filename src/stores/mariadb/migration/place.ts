/** A database to migrate from or to. */
import { OrchdError } from '../../../model/errors.ts';
import type { MigratableStore } from '../../migration/between.ts';
import { type Connect, isLost, type Sql } from '../sql.ts';
import { MariaDbContents } from './contents.ts';
import { MariaDbTarget } from './target.ts';

export interface Database {
  readonly connect: Connect;
  /** Names the database without its password. */
  readonly label: string;
}

export const labelOf = ({ host, pathname, searchParams }: URL): string =>
  `the database ${pathname.slice(1)} at ${searchParams.get('socket') ?? host}`;

/** `unsafe` accepts a server that may lose commits it has answered. */
export const tablesPlace = (database: Database & { readonly unsafe: boolean }): MigratableStore => {
  const { label, unsafe } = database;
  return {
    label,
    contents: () => withConnection(database, (sql) => MariaDbContents.open(sql, label)),
    target: () => withConnection(database, (sql) => MariaDbTarget.open(sql, label, unsafe)),
  };
};

/** Connects and opens; what was opened owns the connection and closes it. */
async function withConnection<T>(database: Database, open: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = await connectTo(database);
  try {
    return await open(sql);
  } catch (error) {
    await sql.close();
    throw error;
  }
}

/** Connects; where nothing answers, the error names the address, since there is no message of a server. */
export async function connectTo({ connect, label }: Database): Promise<Sql> {
  try {
    return await connect();
  } catch (error) {
    const { sqlMessage, code } = error as { sqlMessage?: string; code?: string };
    const isAnswer = sqlMessage !== undefined && code !== 'ER_CONNECTION_TIMEOUT';
    if (isAnswer || !isLost(error)) throw error;
    const told = `${label} cannot be reached (${code ?? 'no answer'})`;
    throw new OrchdError('STORE_FAILED', told, { retriable: true }, { cause: error });
  }
}
