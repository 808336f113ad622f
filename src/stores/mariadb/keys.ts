/**
 * The table with the keys of sessions (docs/decisions/0035). Each statement that writes is behind the fence: a node that
 * no longer leads makes no key and drops none.
 */
import {
  type KeyOwner,
  type KeyOwners,
  MAX_KEYS,
  type SessionKey,
  type SessionKeys,
} from '../../core/ports/keys.ts';
import type { Random } from '../../kit/env/env.ts';
import { newKey, type SealKey } from '../../kit/seal.ts';
import { OrchdError } from '../../model/errors.ts';
import { KEYS_PER_PAGE } from '../migration/contents.ts';
import type { SharedConnection } from './shared-connection.ts';
import { isDiskFull, isReadOnly, type Sql } from './sql.ts';

interface KeyRow {
  readonly n: number;
  readonly key_id: string;
  readonly tenant: string;
  readonly session_id: string;
  readonly secret: Buffer;
}

const OF_OWNER = 'tenant = ? AND session_id = ?';
const FENCE = 'orchestrator_epoch e ON e.id = 1 AND e.epoch = ?';
const PUT = `INSERT IGNORE INTO orchestrator_session_keys (key_id, tenant, session_id, secret)
  SELECT ?, ?, ?, ? FROM orchestrator_epoch WHERE id = 1 AND epoch = ?`;
const GET = `SELECT key_id, secret FROM orchestrator_session_keys WHERE ${OF_OWNER}`;
const FIND = 'SELECT secret FROM orchestrator_session_keys WHERE key_id = ?';
// The row of a deleted key stays in its page until the page is written anew: the key itself is overwritten first.
const BLANK = `UPDATE orchestrator_session_keys k JOIN ${FENCE} SET k.secret = REPEAT(CHAR(0), 32) WHERE ${OF_OWNER}`;
const DROP = `DELETE k FROM orchestrator_session_keys k JOIN ${FENCE} WHERE ${OF_OWNER}`;
const PAGE = 'SELECT n, tenant, session_id FROM orchestrator_session_keys WHERE n > ? ORDER BY n LIMIT ?';

export class TableKeys implements SessionKeys {
  readonly #connection: SharedConnection;
  readonly #random: Random;
  readonly #epoch: () => number;
  /** The number of keys, at most: counting them takes long, and dropped ones are taken off by the next count. */
  #count: number | undefined;

  constructor(connection: SharedConnection, random: Random, epoch: () => number) {
    this.#connection = connection;
    this.#random = random;
    this.#epoch = epoch;
  }

  async obtain(owner: KeyOwner): Promise<SealKey> {
    try {
      return await this.#connection.read((sql) => this.#obtain(sql, owner));
    } catch (error) {
      if (isDiskFull(error)) throw new OrchdError('STORE_FULL', undefined, {}, { cause: error });
      if (isReadOnly(error))
        throw new OrchdError('STORE_BUSY', 'the database is read-only now', {}, { cause: error });
      throw error;
    }
  }

  find(id: string): Promise<Buffer | undefined> {
    return this.#connection.read(async (sql) => {
      const [row] = await sql.query<Pick<KeyRow, 'secret'>>(FIND, [id]);
      return row?.secret;
    });
  }

  drop({ tenant, session }: KeyOwner): Promise<void> {
    return this.#connection.read(async (sql) => {
      const values = [this.#epoch(), tenant, session];
      await sql.run(BLANK, values);
      await sql.run(DROP, values);
      if (await keyOf(sql, { tenant, session })) throw new OrchdError('FENCED');
    });
  }

  owners(after: number, limit: number): Promise<KeyOwners> {
    return this.#connection.read(async (sql) => {
      const rows = await sql.query<KeyRow>(PAGE, [after, limit]);
      const owners = rows.map(({ tenant, session_id }) => ({ tenant, session: session_id }));
      return { owners, next: rows.length < limit ? undefined : rows.at(-1)?.n };
    });
  }

  /** The first row that is inserted for a session stays: concurrent callers, also of other nodes, all read that key. */
  async #obtain(sql: Sql, owner: KeyOwner): Promise<SealKey> {
    const known = await keyOf(sql, owner);
    if (known) return known;
    if (this.#count === undefined || this.#count >= MAX_KEYS) this.#count = await countOf(sql);
    if (this.#count >= MAX_KEYS)
      throw new OrchdError('STORE_BUSY', `the store has the keys of ${MAX_KEYS} sessions, as many as it may`);
    await putKey(sql, { ...newKey(this.#random), ...owner }, this.#epoch());
    const made = await keyOf(sql, owner);
    if (!made) throw new OrchdError('FENCED');
    this.#count++;
    return made;
  }
}

async function countOf(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ count: number }>('SELECT COUNT(*) AS count FROM orchestrator_session_keys');
  return row?.count ?? 0;
}

async function keyOf(sql: Sql, { tenant, session }: KeyOwner): Promise<SealKey | undefined> {
  const [row] = await sql.query<KeyRow>(GET, [tenant, session]);
  return row && { id: row.key_id, key: row.secret };
}

/** Leaves a key that the session has already. */
export async function putKey(sql: Sql, key: SessionKey, epoch: number): Promise<void> {
  await sql.run(PUT, [key.id, key.tenant, key.session, key.key, epoch]);
}

export async function* keyPages(sql: Sql): AsyncGenerator<readonly SessionKey[]> {
  const select = `SELECT n, key_id, tenant, session_id, secret FROM orchestrator_session_keys
    WHERE n > ? ORDER BY n LIMIT ${KEYS_PER_PAGE}`;
  for (let last: number | undefined = 0; last !== undefined; ) {
    const rows: KeyRow[] = await sql.query<KeyRow>(select, [last]);
    last = rows.at(-1)?.n;
    if (rows.length > 0)
      yield rows.map(({ key_id: id, secret: key, tenant, session_id: session }) => ({
        id,
        key,
        tenant,
        session,
      }));
  }
}
