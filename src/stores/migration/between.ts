/** Opens the source and the target of a migration, migrates, and closes both. */
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { diskFailure } from '../disk-failure.ts';
import type { MigrationTarget, StoreContents } from './contents.ts';
import { type MigrationReport, migrate, type OnProgress } from './migrate.ts';

/** A store that can be the source or the target of a migration. */
export interface MigratableStore {
  /** The store's location in texts for people; never with a password. */
  readonly label: string;
  /** The path, where the store is a folder. */
  readonly folder?: string;
  contents(env: Env): Promise<StoreContents>;
  target(env: Env): Promise<MigrationTarget>;
}

export async function migrateBetween(
  env: Env,
  from: MigratableStore,
  to: MigratableStore,
  onProgress: OnProgress,
): Promise<MigrationReport> {
  await using opened = new AsyncDisposableStack();
  try {
    const source = opened.adopt(await from.contents(env), (contents) => contents.close());
    const target = opened.adopt(await to.target(env), (written) => written.close());
    return await migrate(source, target, onProgress);
  } catch (error) {
    throw migrationFailure(error);
  }
}

/**
 * The error to report for a failed migration. A database driver's own message contains the SQL statement with all its
 * values, so only the server's reason is passed on.
 */
export function migrationFailure(thrown: unknown): unknown {
  if (thrown instanceof OrchdError) return thrown;
  const failure = thrown as { sqlMessage?: string | null; code?: string; fatal?: boolean };
  // Neither of these fields is set on an error that did not come from the database driver.
  if (failure.sqlMessage === undefined && failure.fatal !== true) {
    return diskErrorCode(thrown) === undefined ? thrown : diskFailure(thrown, 'a file could not be used');
  }
  const why = failure.sqlMessage ?? failure.code ?? 'the connection is lost';
  return new OrchdError('STORE_FAILED', `the database failed: ${why}`, {}, { cause: thrown });
}
