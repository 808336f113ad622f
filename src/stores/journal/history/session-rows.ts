/** The archived sessions in the history file: their columns, and the queries over them. */

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { ArchiveQuery, SessionName } from '../../../core/ports/sessions.ts';
import type { SessionRecord } from '../../../model/session-record.ts';
import { readSession } from '../../session-text.ts';
import { noticingDamage } from './damage.ts';
import { HistoryDamaged } from './history.ts';
import { rangeEnds } from './range-ends.ts';
import { type SessionIndex, sessionFiles } from './session-index.ts';

export const SESSIONS_SCHEMA = `
CREATE TABLE IF NOT EXISTS sessions (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  used_at INTEGER NOT NULL,
  blob_low INTEGER,
  blob_high INTEGER,
  record TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX IF NOT EXISTS sessions_used ON sessions(tenant, used_at, id);
CREATE INDEX IF NOT EXISTS sessions_age ON sessions(used_at);
CREATE INDEX IF NOT EXISTS sessions_blobs ON sessions(blob_low, blob_high) WHERE blob_low IS NOT NULL;
`;

const INSERT =
  'INSERT OR REPLACE INTO sessions (tenant, id, used_at, blob_low, blob_high, record) VALUES (?,?,?,?,?,?)';
const DELETE = 'DELETE FROM sessions WHERE tenant = ? AND id = ?';
const BEFORE = '(used_at < ? OR (used_at = ? AND id < ?))';
const NEWEST_FIRST = 'ORDER BY used_at DESC, id DESC LIMIT ?';

interface Row {
  readonly record: string;
}

type Values = readonly (string | number)[];

export class SessionRows implements SessionIndex {
  readonly #database: DatabaseSync;
  readonly #transaction: (run: () => void) => void;
  readonly #statements = new Map<string, StatementSync>();

  constructor(database: DatabaseSync, transaction: (run: () => void) => void) {
    this.#database = database;
    this.#transaction = transaction;
  }

  put(rows: readonly string[]): void {
    this.#transaction(() => {
      for (const row of rows) {
        const record = readSession(row);
        const files = sessionFiles(record);
        const { tenant, id, usedAt } = record;
        this.#statement(INSERT).run(tenant, id, usedAt, files?.low ?? null, files?.high ?? null, row);
      }
    });
  }

  drop(sessions: readonly SessionName[]): void {
    this.#transaction(() => {
      for (const { tenant, id } of sessions) this.#statement(DELETE).run(tenant, id);
    });
  }

  get(tenant: string, id: string): SessionRecord | undefined {
    return this.#records('SELECT record FROM sessions WHERE tenant = ? AND id = ?', [tenant, id])[0];
  }

  list({ tenant, before, limit }: ArchiveQuery): SessionRecord[] {
    const sql = 'SELECT record FROM sessions WHERE tenant = ?';
    if (!before) return this.#records(`${sql} ${NEWEST_FIRST}`, [tenant, limit]);
    const { usedAt, id } = before;
    return this.#records(`${sql} AND ${BEFORE} ${NEWEST_FIRST}`, [tenant, usedAt, usedAt, id, limit]);
  }

  oldest(usedBefore: number, limit: number): SessionRecord[] {
    const sql = 'SELECT record FROM sessions WHERE used_at < ? ORDER BY used_at, id LIMIT ?';
    return this.#records(sql, [usedBefore, limit]);
  }

  isEmpty(): boolean {
    return noticingDamage(() => this.#statement('SELECT 1 FROM sessions LIMIT 1').get()) === undefined;
  }

  *all(): Generator<SessionRecord> {
    for (let tenant = '', id = ''; ; ) {
      const sql = 'SELECT record FROM sessions WHERE (tenant, id) > (?, ?) ORDER BY tenant, id LIMIT 500';
      const page = this.#records(sql, [tenant, id]);
      yield* page;
      const last = page.at(-1);
      if (!last) return;
      ({ tenant, id } = last);
    }
  }

  usesBlobFile(file: number): boolean {
    const sql = 'SELECT 1 FROM sessions WHERE blob_low <= ? AND blob_high >= ? LIMIT 1';
    return noticingDamage(() => this.#statement(sql).get(file, file)) !== undefined;
  }

  blobFiles(): number[] {
    return rangeEnds(this.#database, 'sessions');
  }

  #records(sql: string, values: Values): SessionRecord[] {
    const rows = noticingDamage(() => this.#statement(sql).all(...values)) as unknown as Row[];
    return rows.map(({ record }) => read(record));
  }

  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

function read(text: string): SessionRecord {
  try {
    return readSession(text);
  } catch (error) {
    if ((error as { code?: string }).code === 'STORE_TOO_NEW') throw error;
    // SQLite has no checksum over its pages: damage inside of a text shows only where the text is read.
    throw new HistoryDamaged('the text of an archived session cannot be read', { cause: error });
  }
}
