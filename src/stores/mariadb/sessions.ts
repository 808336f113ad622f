/** The archive of sessions: a table of their records. Bodies that a session owns are kept as long as it is there. */

import type { ArchiveQuery, SessionArchive, SessionName } from '../../core/ports/sessions.ts';
import { OrchdError } from '../../model/errors.ts';
import { scoped } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { readSession, sessionText } from '../session-text.ts';
import { behindFence } from './fence.ts';
import type { SharedConnection } from './shared-connection.ts';
import { isDiskFull, type Sql, type Value } from './sql.ts';

export const PUT_SESSION = `INSERT INTO orchestrator_sessions (name, tenant, id, used_ms, record) VALUES (?, ?, ?, ?, ?)
  ON DUPLICATE KEY UPDATE used_ms = VALUES(used_ms), record = VALUES(record)`;
const DROP_SESSION = 'DELETE FROM orchestrator_sessions WHERE name = ?';
/** Records of one statement, at most: a statement must be smaller than `max_allowed_packet`. */
const STATEMENT_BYTES = 2 ** 20;

export const sessionValues = (record: SessionRecord): Value[] => [
  scoped(record.tenant, record.id),
  record.tenant,
  record.id,
  record.usedAt,
  sessionText(record),
];

const RECORD = 'SELECT record FROM orchestrator_sessions';

interface Row {
  readonly record: string;
}

/** `writes` is a connection for transactions of their own, and `epoch` that of this leader. */
export class TableArchive implements SessionArchive {
  readonly #reads: SharedConnection;
  readonly #writes: SharedConnection;
  readonly #epoch: () => number;
  /** The write before: two transactions on one connection would become one. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(reads: SharedConnection, writes: SharedConnection, epoch: () => number) {
    this.#reads = reads;
    this.#writes = writes;
    this.#epoch = epoch;
  }

  put(records: readonly SessionRecord[]): Promise<void> {
    return this.#write(async (sql) => {
      for (const piece of piecesOf(records.map(sessionValues))) await sql.batch(PUT_SESSION, piece);
    });
  }

  drop(sessions: readonly SessionName[]): Promise<void> {
    return this.#write(async (sql) => {
      const names = sessions.map(({ tenant, id }) => [scoped(tenant, id)]);
      await sql.batch(DROP_SESSION, names);
    });
  }

  async get(tenant: string, id: string): Promise<SessionRecord | undefined> {
    return (await this.#records(`${RECORD} WHERE name = ?`, [scoped(tenant, id)]))[0];
  }

  list({ tenant, before, limit }: ArchiveQuery): Promise<SessionRecord[]> {
    const values: Value[] = [tenant];
    if (before) values.push(before.usedAt, before.usedAt, before.id);
    const where = before ? 'AND (used_ms < ? OR (used_ms = ? AND id < ?))' : '';
    const order = 'ORDER BY used_ms DESC, id DESC LIMIT ?';
    return this.#records(`${RECORD} WHERE tenant = ? ${where} ${order}`, [...values, limit]);
  }

  oldest(usedBefore: number, limit: number): Promise<SessionRecord[]> {
    return this.#records(`${RECORD} WHERE used_ms < ? ORDER BY used_ms, id LIMIT ?`, [usedBefore, limit]);
  }

  isEmpty(): Promise<boolean> {
    return this.#reads.read(
      async (sql) => (await sql.query('SELECT 1 FROM orchestrator_sessions LIMIT 1')).length === 0,
    );
  }

  #records(select: string, values: readonly Value[]): Promise<SessionRecord[]> {
    return this.#reads.read(async (sql) => {
      const rows = await sql.query<Row>(select, values);
      return rows.map(({ record }) => readSession(record));
    });
  }

  #write(run: (sql: Sql) => Promise<void>): Promise<void> {
    const write = this.#last.then(() =>
      this.#writes.read((sql) => behindFence(sql, this.#epoch(), () => run(sql))),
    );
    this.#last = write.catch(() => undefined);
    return write.catch((error: unknown) => {
      throw isDiskFull(error) ? new OrchdError('STORE_FULL', undefined, {}, { cause: error }) : error;
    });
  }
}

function* piecesOf(rows: readonly Value[][]): Generator<readonly Value[][]> {
  let piece: Value[][] = [];
  let chars = 0;
  for (const row of rows) {
    const size = String(row.at(-1)).length;
    if (chars + size > STATEMENT_BYTES && piece.length > 0) {
      yield piece;
      piece = [];
      chars = 0;
    }
    piece.push(row);
    chars += size;
  }
  yield piece;
}
