/**
 * The statements of the election. The row of orchestrator_epoch says who leads: the epoch, the node, and until when by
 * the clock of the database. The lock only shortens the wait after a leader has died; it decides nothing by itself
 * (docs/decisions/0011).
 */
import type { Leader } from '../../core/ports/leadership.ts';
import { OrchdError } from '../../model/errors.ts';
import { MIGRATIONS } from './schema.ts';
import { type Sql, transaction } from './sql.ts';

/** The lock has the name of the database, because a lock is the server's and a server may hold several databases. */
export const lockNameOf = (database: string): string => `gpu_orchestrator_leader.${database}`.slice(0, 64);

export interface Candidate {
  readonly node: string;
  readonly address: string;
  readonly ttlMs: number;
}

interface LeaderRow {
  readonly epoch: number;
  readonly node: string | null;
  readonly address: string | null;
  readonly has_lock: number;
  readonly silent_ms: number;
  readonly expired: number;
  readonly version: number;
}

const SELECT = `SELECT epoch, node, address, has_lock, silent_ms,
  (expires_at IS NULL OR expires_at <= NOW(6)) AS expired,
  (SELECT version FROM orchestrator_schema WHERE id = 1) AS version FROM orchestrator_epoch WHERE id = 1`;

/**
 * An expired row is free for every node. Who gets the lock knows that the connection of its last holder is gone, and
 * not whether the process is: a leader whose connection was killed acts until it notices. So the row of a leader that
 * had the lock is free before it expires only where the process is gone too. A leader that never had the lock may be
 * alive without it.
 */
export const mayLead = (
  row: { expired: boolean; hasLock: boolean },
  { gotLock, isGone }: { gotLock: boolean; isGone: boolean },
): boolean => row.expired || (gotLock && row.hasLock && isGone);

/** The leader, or undefined where its time has run out. */
export async function leaderOf(sql: Sql): Promise<Leader | undefined> {
  const [row] = await sql.query<LeaderRow>(SELECT);
  if (!row || row.expired === 1 || row.node === null) return undefined;
  return { epoch: row.epoch, node: row.node, address: row.address ?? '', silentMs: row.silent_ms };
}

const UNTIL = 'NOW(6) + INTERVAL ? MICROSECOND';

/** Whether the process of a leader does not exist any more. */
export type IsGone = (leader: { readonly node: string; readonly address: string }) => Promise<boolean>;

/** Takes the lead where mayLead allows it; returns the new epoch. */
export async function contend(
  sql: Sql,
  self: Candidate,
  { gotLock, isGone }: { readonly gotLock: boolean; readonly isGone: IsGone },
): Promise<number | undefined> {
  // The row is read first without locking it: the leader's commits need it.
  const seen = theRow(await sql.query<LeaderRow>(SELECT));
  // The leader is asked for outside of the transaction, and only where the answer decides.
  const canBeGone = !isFree(seen, { gotLock, isGone: false }) && isFree(seen, { gotLock, isGone: true });
  const gone = canBeGone && (await isGone({ node: seen.node ?? '', address: seen.address ?? '' }));
  if (!isFree(seen, { gotLock, isGone: gone })) return undefined;
  return transaction(sql, async () => {
    const row = theRow(await sql.query<LeaderRow>(`${SELECT} FOR UPDATE`));
    if (!isFree(row, { gotLock, isGone: gone && row.epoch === seen.epoch })) return undefined;
    await sql.run(
      `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = ?, address = ?, has_lock = ?, silent_ms = 0,
         expires_at = ${UNTIL} WHERE id = 1`,
      [self.node, self.address, gotLock ? 1 : 0, self.ttlMs * 1000],
    );
    return row.epoch + 1;
  });
}

function theRow([row]: readonly LeaderRow[]): LeaderRow {
  if (!row) throw new OrchdError('STORE_CORRUPT', 'the row of the epoch is missing');
  return row;
}

function isFree(row: LeaderRow, known: { readonly gotLock: boolean; readonly isGone: boolean }): boolean {
  // A newer node has migrated the tables meanwhile: this one does not know them and must not write to them.
  if (row.version > MIGRATIONS.length) return false;
  return mayLead({ expired: row.expired === 1, hasLock: row.has_lock === 1 }, known);
}

/** Returns false where another node leads. */
export async function renew(
  sql: Sql,
  epoch: number,
  ttlMs: number,
  how: { readonly hasLock: boolean; readonly silentMs: number },
): Promise<boolean> {
  const { rows } = await sql.run(
    `UPDATE orchestrator_epoch SET has_lock = ?, silent_ms = ?, expires_at = ${UNTIL} WHERE id = 1 AND epoch = ?`,
    [how.hasLock ? 1 : 0, how.silentMs, ttlMs * 1000, epoch],
  );
  return rows === 1;
}

/** Ends the lead, so that another node can take it at once. */
export async function giveUp(sql: Sql, epoch: number): Promise<void> {
  await sql.run('UPDATE orchestrator_epoch SET expires_at = NULL WHERE id = 1 AND epoch = ?', [epoch]);
}

/** Waits for the lock; the server answers null where the wait was interrupted. */
export async function getLock(sql: Sql, name: string, waitSec: number): Promise<boolean> {
  const [row] = await sql.query<{ got: number | null }>('SELECT GET_LOCK(?, ?) AS got', [name, waitSec]);
  return row?.got === 1;
}

export async function releaseLock(sql: Sql, name: string): Promise<void> {
  await sql.query('SELECT RELEASE_LOCK(?)', [name]);
}

/** The secret by which nodes know each other; the first node that opens the database makes it. */
export async function clusterSecret(sql: Sql, fresh: string): Promise<string> {
  await sql.run('UPDATE orchestrator_epoch SET secret = ? WHERE id = 1 AND secret IS NULL', [fresh]);
  const [row] = await sql.query<{ secret: string }>('SELECT secret FROM orchestrator_epoch WHERE id = 1');
  return row?.secret ?? fresh;
}
