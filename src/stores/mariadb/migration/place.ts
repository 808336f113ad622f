/** A database to migrate from or to. */
import { OrchdError } from '../../../model/errors.ts';
import type { MigratableStore } from '../../migration/between.ts';
import { type Connect, isLost, type Sql } from '../sql.ts';
import { MariaDbContents } from './contents.ts';
import { MariaDbTarget } from './target.ts';

export interface Database {
  readonly connect: Connect;
  /** Names it without its password. */
  readonly label: string;
}

export const labelOf = ({ host, pathname, searchParams }: URL): string =>
  `the database ${pathname.slice(1)} at ${searchParams.get('socket') ?? host}`;

/** `unsafe` takes a server that may lose what it has answered. */
export const tablesPlace = (database: Database & { readonly unsafe: boolean }): MigratableStore => {
  const { label, unsafe } = database;
  return {
    label,
    contents: () => onLine(database, (sql) => MariaDbContents.open(sql, label)),
    target: () => onLine(database, (sql) => MariaDbTarget.open(sql, label, unsafe)),
  };
};

/** What is opened has the line from here on, and closes it. */
async function onLine<T>(database: Database, open: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = await lineTo(database);
  try {
    return await open(sql);
  } catch (error) {
    await sql.close();
    throw error;
  }
}

/** A server that is not there has no message of its own: where it was looked for is what helps. */
export async function lineTo({ connect, label }: Database): Promise<Sql> {
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
