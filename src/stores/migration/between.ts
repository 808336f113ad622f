/** Opens the two ends of a migration, migrates, and lets go of them again. */
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { diskFailure } from '../disk-failure.ts';
import type { Contents, Target } from './contents.ts';
import { type MigrationReport, migrate, type OnProgress } from './migrate.ts';

/** A store that can be read or written as a whole. */
export interface Place {
  /** Where it is, in words; never with a password. */
  readonly label: string;
  /** Where it is a folder. */
  readonly folder?: string;
  contents(env: Env): Promise<Contents>;
  target(env: Env): Promise<Target>;
}

export async function migrateBetween(
  env: Env,
  from: Place,
  to: Place,
  onProgress: OnProgress,
): Promise<MigrationReport> {
  await using ends = new AsyncDisposableStack();
  try {
    const source = ends.adopt(await from.contents(env), (contents) => contents.close());
    const target = ends.adopt(await to.target(env), (opened) => opened.close());
    return await migrate(source, target, onProgress);
  } catch (error) {
    throw plainly(error);
  }
}

/** What a driver says of a failure holds the statement with all its values: only the reason is told. */
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
