/** Migrates the tables to the version this program knows, one node at a time, going on where an earlier try stopped. */
import { OrchdError } from '../../model/errors.ts';
import { fillCharges } from './charges.ts';
import { MIGRATIONS } from './schema.ts';
import type { Sql } from './sql.ts';
import { refuseUnfinished } from './unfinished.ts';

/** The lock has the name of the database, because a lock is the server's and a server may hold several databases. */
const LOCK = "LEFT(CONCAT('orchd_migrate.', DATABASE()), 64)";
const LOCK_WAIT_SEC = 60;

const VERSIONS = `CREATE TABLE IF NOT EXISTS orchestrator_schema (
  id TINYINT NOT NULL PRIMARY KEY, version INT UNSIGNED NOT NULL) ENGINE=InnoDB`;

/** What follows the statements of a step, by the version that it begins with; may be cut short and run again, too. */
const FILLS: Readonly<Record<number, (sql: Sql) => Promise<void>>> = { 5: fillCharges };

/** The versions of the tables before and after; `from` is 0 where there were no tables. */
export interface Migrated {
  readonly from: number;
  readonly to: number;
}

/** Migrates the tables and refuses those that a move has not finished. */
export async function migrate(sql: Sql): Promise<Migrated> {
  const migrated = await bringUp(sql);
  await refuseUnfinished(sql);
  return migrated;
}

export async function bringUp(sql: Sql): Promise<Migrated> {
  const [lock] = await sql.query<{ got: number | null }>(`SELECT GET_LOCK(${LOCK}, ?) AS got`, [
    LOCK_WAIT_SEC,
  ]);
  if (lock?.got !== 1) throw new OrchdError('STORE_BUSY', 'another node changes the tables; try again');
  try {
    await sql.run(VERSIONS);
    await sql.run('INSERT IGNORE INTO orchestrator_schema (id, version) VALUES (1, 0)');
    const from = await versionOf(sql);
    for (let version = from; version < MIGRATIONS.length; version++) {
      for (const statement of MIGRATIONS[version] ?? []) await sql.run(statement);
      await FILLS[version]?.(sql);
      await sql.run('UPDATE orchestrator_schema SET version = ? WHERE id = 1', [version + 1]);
    }
    return { from, to: MIGRATIONS.length };
  } finally {
    await sql.query(`SELECT RELEASE_LOCK(${LOCK})`);
  }
}

export async function versionOf(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ version: number }>('SELECT version FROM orchestrator_schema WHERE id = 1');
  const version = row?.version ?? 0;
  if (version > MIGRATIONS.length) {
    const message = `the tables have version ${version}; this orchd knows ${MIGRATIONS.length}: use a newer one`;
    throw new OrchdError('STORE_TOO_NEW', message);
  }
  return version;
}

/** Settings of the server without which a commit may not survive a power cut. */
const DURABLE: Readonly<Record<string, string>> = {
  innodb_flush_log_at_trx_commit: '1',
  sync_binlog: '1',
};

/** Refuses a server that would answer a commit before it is on disk. */
export async function checkDurable(sql: Sql, unsafe: boolean): Promise<void> {
  const rows = await sql.query<{ Variable_name: string; Value: string }>(
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit','sync_binlog','log_bin','wsrep_on')",
  );
  const found = new Map(rows.map(({ Variable_name, Value }) => [Variable_name.toLowerCase(), Value]));
  if (found.get('wsrep_on') === 'ON') {
    throw new OrchdError('CONFIG_INVALID', 'a Galera cluster is not supported: its locks do not hold');
  }
  if (unsafe) return;
  for (const [name, wanted] of Object.entries(DURABLE)) {
    if (name === 'sync_binlog' && found.get('log_bin') !== 'ON') continue;
    if (found.get(name) === wanted) continue;
    const message = `the server answers before it has written (${name} is ${found.get(name)}): set it to ${wanted}, or mariadb.unsafe to true`;
    throw new OrchdError('CONFIG_INVALID', message);
  }
}
