/** Opens the two ends of a move, moves, and lets go of them again. */
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { diskFailure } from '../journal/failures.ts';
import { type Connect, isLost, type Sql } from '../mariadb/sql.ts';
import type { Contents, Target } from './contents.ts';
import { JournalContents } from './journal-contents.ts';
import { JournalTarget } from './journal-target.ts';
import { MariaDbContents } from './mariadb-contents.ts';
import { MariaDbTarget } from './mariadb-target.ts';
import { type MoveReport, move, type OnProgress } from './move.ts';

export type Place =
  | { readonly is: 'journal'; readonly folder: string }
  /** `label` names it without its password; `unsafe` takes a server that may lose what it has answered. */
  | { readonly is: 'mariadb'; readonly connect: Connect; readonly label: string; readonly unsafe: boolean };

export async function moveBetween(
  env: Env,
  from: Place,
  to: Place,
  onProgress: OnProgress,
): Promise<MoveReport> {
  await using lines = new AsyncDisposableStack();
  try {
    const source = lines.adopt(await openSource(env, from, lines), (contents) => contents.close());
    const target = lines.adopt(await openTarget(env, to, lines), (opened) => opened.close());
    return await move(source, target, onProgress);
  } catch (error) {
    throw plainly(error);
  }
}

async function openSource(env: Env, place: Place, lines: AsyncDisposableStack): Promise<Contents> {
  if (place.is === 'journal') return JournalContents.open(env, place.folder);
  const sql = lines.adopt(await lineTo(place), (line) => line.close());
  return MariaDbContents.open(sql, place.label);
}

async function openTarget(env: Env, place: Place, lines: AsyncDisposableStack): Promise<Target> {
  if (place.is === 'journal') return JournalTarget.open(env, place.folder);
  const sql = lines.adopt(await lineTo(place), (line) => line.close());
  return MariaDbTarget.open(sql, place.label, place.unsafe);
}

/** A server that is not there has no message of its own: where it was looked for is what helps. */
export async function lineTo({ connect, label }: { connect: Connect; label: string }): Promise<Sql> {
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

/** What the driver says of a failure holds the statement with all its values: only the reason is told. */
export function plainly(thrown: unknown): unknown {
  if (thrown instanceof OrchdError) return thrown;
  const failure = thrown as { sqlMessage?: string | null; code?: string; fatal?: boolean };
  // Only a database has lines that end.
  if (failure.sqlMessage === undefined && failure.fatal !== true) {
    return diskErrorCode(thrown) === undefined ? thrown : diskFailure(thrown, 'a file could not be used');
  }
  const why = failure.sqlMessage ?? failure.code ?? 'the line is lost';
  return new OrchdError('STORE_FAILED', `the database gave up: ${why}`, {}, { cause: thrown });
}
