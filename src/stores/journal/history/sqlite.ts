/** The history in SQLite: one writer (the background thread of a brain, or a migration into the folder), and
 * read-only connections elsewhere. */

import { renameSync, rmSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { LedgerKey, LedgerPlace, LedgerSum, LedgerWindow } from '../../../core/ports/ledger.ts';
import type { HistoryQuery, JobBelow, JobBundle, KeptJob, PurgePlan } from '../../../core/ports/store.ts';
import { makeDatabasePrivate } from '../../../kit/env/private-files.ts';
import { type Charge, chargesOf } from '../../../model/charge.ts';
import { DEFAULT_TENANT } from '../../../model/records.ts';
import { ancestorsOf } from '../../ended-jobs.ts';
import { sessionText } from '../../session-text.ts';
import { tagParts } from '../../tag-text.ts';
import { readBundle, readLine } from '../checkpoint/line.ts';
import { CHARGES_SCHEMA, ChargeRows } from './charge-rows.ts';
import { isDamaged, noticingDamage, OtherLayout } from './damage.ts';
import { HistoryDamaged, type HistoryIndex, type HistoryOpened, type LogPoint, readRow } from './history.ts';
import { rangeEnds } from './range-ends.ts';
import { memorySessions, type SessionIndex } from './session-index.ts';
import { SESSIONS_SCHEMA, SessionRows } from './session-rows.ts';

/**
 * The version of SCHEMA. A file with version 1 lacks the columns `batch` and `tags`, which no job had then; those with
 * version 1 or 2 lack the charges, and those below 4 the column `root`: both are made from their jobs; those below 4 also
 * lack the archived sessions, of which there were none then. One with any other version is set aside and rebuilt from the
 * log.
 */
const LAYOUT = 4;
const OLDER_LAYOUTS: readonly number[] = [1, 2, 3];
/** The first layout with charges. */
const WITH_CHARGES = 3;

/** `ended_at`: when the job ended or, of one that a purge has passed over, the instant from which its time counts. */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS jobs (
  n INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  state TEXT NOT NULL,
  type TEXT NOT NULL,
  principal TEXT NOT NULL,
  session TEXT,
  key TEXT,
  ended_at INTEGER NOT NULL,
  caller_attempts INTEGER,
  blob_low INTEGER,
  blob_high INTEGER,
  line TEXT NOT NULL,
  batch TEXT,
  tags TEXT,
  root TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_ended ON jobs(ended_at);
CREATE INDEX IF NOT EXISTS jobs_session ON jobs(session, n) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_key ON jobs(key, n) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_not_done ON jobs(state, n) WHERE state <> 'succeeded';
CREATE INDEX IF NOT EXISTS jobs_blobs ON jobs(blob_low, blob_high) WHERE blob_low IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_batch ON jobs(batch, n) WHERE batch IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_root ON jobs(root, n) WHERE root IS NOT NULL;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
${CHARGES_SCHEMA}${SESSIONS_SCHEMA}`;

const INSERT = `INSERT OR REPLACE INTO jobs (line, n, uid, tenant, state, type, principal, session, key, ended_at,
  caller_attempts, blob_low, blob_high, batch, tags, root) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`;

type Mode = 'write' | 'read';

interface Row {
  readonly line: string;
}

export class SqliteHistory implements HistoryIndex {
  readonly #path: string;
  readonly #mode: Mode;
  #database: DatabaseSync | undefined;
  #byUid: StatementSync | undefined;
  #insert: StatementSync | undefined;
  #setFact: StatementSync | undefined;
  #charges: ChargeRows | undefined;
  #sessions: SessionIndex = memorySessions();
  /** The archived sessions of a file that was set aside, as far as they could be read: the next file gets them. */
  #rescued: string[] = [];
  /**
   * The file is of a layout without charges. It keeps it until the first put(), which has the charges of the jobs that have
   * not ended: a start that is cut short before finds the older layout again.
   */
  #lacksCharges = false;

  constructor(path: string, mode: Mode) {
    this.#path = path;
    this.#mode = mode;
  }

  open(): HistoryOpened {
    try {
      return this.#open();
    } catch (error) {
      if (this.#mode === 'read' || !isDamaged(error)) throw error;
      this.setAside();
      return this.#open();
    }
  }

  get sessions(): SessionIndex {
    return this.#sessions;
  }

  /** Renames the file to `<name>.damaged`, for inspection. */
  setAside(): void {
    this.#rescueSessions();
    this.close();
    for (const suffix of ['-wal', '-shm']) rmSync(this.#path + suffix, { force: true });
    renameSync(this.#path, `${this.#path}.damaged`);
  }

  /** Only the log could tell them again, and it is shorter than the life of a session. */
  #rescueSessions(): void {
    try {
      for (const record of this.#sessions.all()) this.#rescued.push(sessionText(record));
    } catch {
      // The rest of them cannot be read.
    }
  }

  #open(): HistoryOpened {
    if (this.#mode === 'write') makeDatabasePrivate(this.#path);
    const database = new DatabaseSync(this.#path, { readOnly: this.#mode === 'read', timeout: 5000 });
    this.#database = database;
    if (this.#mode === 'write') {
      database.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=2000');
      addColumns(database);
      database.exec(SCHEMA);
    }
    this.#byUid = database.prepare('SELECT line FROM jobs WHERE uid = ?');
    const layout = this.#fact('layout');
    const isOlder = layout !== undefined && OLDER_LAYOUTS.includes(layout);
    const isKnown = layout === undefined || layout === LAYOUT || isOlder;
    // A reader may find a file that this version has never opened for writing: it has fewer tables.
    if (this.#mode === 'write' || layout === LAYOUT)
      this.#sessions = new SessionRows(database, (run) => this.#transaction(run));
    if (this.#mode === 'write') {
      if (!isKnown) throw new OtherLayout();
      this.#insert = database.prepare(INSERT);
      this.#setFact = database.prepare('INSERT OR REPLACE INTO facts VALUES (?,?)');
    }
    const hasCharges = layout === LAYOUT || (isOlder && layout >= WITH_CHARGES);
    if (this.#mode === 'write' || hasCharges) this.#charges = new ChargeRows(database, this.#mode);
    this.#lacksCharges = isOlder && !hasCharges;
    if (this.#mode === 'write') {
      this.#transaction(() => this.#fill(isOlder));
      this.#sessions.put(this.#rescued);
      this.#rescued = [];
    }
    const watermark = this.#fact('watermark');
    const lacksCharges = this.#lacksCharges && watermark !== undefined;
    return { watermark: watermark ?? 0, fresh: watermark === undefined, lacksCharges, log: this.#logPoint() };
  }

  /** Brings an index of an older layout to this one as far as its jobs tell what it lacks. */
  #fill(isOlder: boolean): void {
    if (isOlder) this.#setRoots();
    if (this.#lacksCharges) this.#chargeJobs();
    else this.#setLayout();
  }

  /** A line that cannot be parsed is passed over: it is noticed where it is read. */
  #setRoots(): void {
    const json = `substr(line, instr(line, '{'))`;
    this.#database?.exec(`UPDATE jobs SET root = json_extract(${json}, '$.ask.ancestors[0]')
      WHERE root IS NULL AND instr(line, '"ancestors":["') > 0 AND json_valid(${json})`);
  }

  /** Adds the charges of the jobs in an index of an older layout. */
  #chargeJobs(): void {
    for (const charge of this.#chargesOfJobs()) this.#charges?.put(charge);
  }

  #setLayout(): void {
    this.#setFact?.run('layout', LAYOUT);
  }

  /** Most jobs used no tokens: those are not parsed. */
  *#chargesOfJobs(): Generator<Charge> {
    const sql = `SELECT line FROM jobs WHERE instr(line, '"usage":') > 0 OR instr(line, '"bill":') > 0`;
    for (const row of this.#database?.prepare(sql).iterate() ?? []) {
      const { uid, ask, attempts } = toBundle(row as unknown as Row);
      yield* chargesOf(uid, ask, attempts);
    }
  }

  put(rows: readonly string[], watermark: number, log?: LogPoint, charges: readonly string[] = []): void {
    this.#transaction(() => {
      for (const row of rows) {
        const { columns, line, withCharges } = readRow(row);
        this.#insert?.run(line, ...columns);
        if (!withCharges) continue;
        const { uid, ask, attempts } = toBundle({ line });
        for (const charge of chargesOf(uid, ask, attempts)) this.#charges?.put(charge);
      }
      for (const row of charges) this.#charges?.putRow(row);
      if (this.#lacksCharges) this.#setLayout();
      this.#setFact?.run('watermark', watermark);
      if (!log) return;
      this.#setFact?.run('log_seq', log.seq);
      this.#setFact?.run('log_chain', log.chain);
      if (log.owner !== undefined) this.#setFact?.run('log_owner', log.owner);
    });
    this.#lacksCharges = false;
  }

  get(uid: string): JobBundle | undefined {
    const row = noticingDamage(() => this.#byUid?.get(uid)) as Row | undefined;
    return row && toBundle(row);
  }

  list(query: HistoryQuery): JobBundle[] {
    const where = ['tenant = ?'];
    const values: (string | number)[] = [query.tenant];
    const and = (clause: string, ...more: (string | number)[]): void => {
      where.push(clause);
      values.push(...more);
    };
    if (query.before !== undefined) and('n < ?', query.before);
    if (query.after !== undefined) and('n > ?', query.after);
    if (query.states) and(`state IN (${query.states.map(() => '?').join(',')})`, ...query.states);
    if (query.type !== undefined) and('type = ?', query.type);
    if (query.session !== undefined) and('session = ?', query.session);
    if (query.key !== undefined) and('key = ?', query.key);
    if (query.principal !== undefined) and('principal = ?', query.principal);
    if (query.batch !== undefined) and('batch = ?', query.batch);
    if (query.root !== undefined) and('root = ?', query.root);
    for (const part of tagParts(query.tags ?? {})) and('instr(tags, ?) > 0', part);
    const order = query.order === 'oldest first' ? 'ASC' : 'DESC';
    const sql = `SELECT line FROM jobs WHERE ${where.join(' AND ')} ORDER BY n ${order} LIMIT ?`;
    return this.#bundles(sql, ...values, query.limit);
  }

  between(from: string, below: string, limit: number): JobBundle[] {
    const sql = 'SELECT line FROM jobs WHERE uid >= ? AND uid < ? ORDER BY uid DESC LIMIT ?';
    return this.#bundles(sql, from, below, limit);
  }

  /** The lowest and the highest admission number; undefined for an empty history. */
  range(): { readonly low: number; readonly high: number } | undefined {
    const low = this.#number('SELECT min(n) AS value FROM jobs');
    const high = this.#number('SELECT max(n) AS value FROM jobs');
    return low === undefined || high === undefined ? undefined : { low, high };
  }

  after(n: number, limit: number): JobBundle[] {
    const sql = 'SELECT line FROM jobs WHERE n > ? ORDER BY n LIMIT ?';
    return this.#bundles(sql, n, limit);
  }

  count(): number {
    return this.#number('SELECT count(*) AS value FROM jobs') ?? 0;
  }

  planPurge(endedBefore: number, limit: number): PurgePlan {
    const purgeable = 'SELECT n, caller_attempts FROM jobs WHERE ended_at < ? ORDER BY ended_at LIMIT ?';
    const jobs = this.#number(`SELECT count(*) AS value FROM (${purgeable})`, endedBefore, limit) ?? 0;
    const attemptFloor =
      this.#number(`SELECT max(caller_attempts) AS value FROM (${purgeable})`, endedBefore, limit) ?? 0;
    return { jobs, attemptFloor, below: this.#below(endedBefore, limit) };
  }

  /** Those of the jobs which a purge would delete that are below others. */
  #below(endedBefore: number, limit: number): JobBelow[] {
    const sql = `SELECT p.line, r.ended_at AS rootEndedAt
      FROM (SELECT tenant, root, line FROM jobs WHERE ended_at < ? ORDER BY ended_at LIMIT ?) p
      LEFT JOIN jobs r ON r.uid = iif(p.tenant = ?, p.root, p.tenant || '~' || p.root)
      WHERE p.root IS NOT NULL`;
    const found = noticingDamage(() =>
      this.#database?.prepare(sql).all(endedBefore, limit, DEFAULT_TENANT),
    ) as unknown as (Row & { readonly rootEndedAt: number | null })[];
    return found.map((row) => {
      const bundle = toBundle(row);
      return {
        uid: bundle.uid,
        ancestors: ancestorsOf(bundle),
        rootEndedAt: row.rootEndedAt ?? undefined,
      };
    });
  }

  purge(endedBefore: number, limit: number, kept: readonly KeptJob[] = []): void {
    this.#transaction(() => {
      const keep = this.#database?.prepare('UPDATE jobs SET ended_at = ? WHERE uid = ? AND ended_at < ?');
      for (const { uid, from } of kept) keep?.run(from, uid, from);
      const sql =
        'DELETE FROM jobs WHERE n IN (SELECT n FROM jobs WHERE ended_at < ? ORDER BY ended_at LIMIT ?)';
      this.#database?.prepare(sql).run(endedBefore, limit - kept.length);
    });
  }

  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): LedgerSum[] {
    return noticingDamage(() => this.#charges?.sums(window, by, limit) ?? []);
  }

  charges(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): string[] {
    return noticingDamage(() => this.#charges?.page(window, after, limit) ?? []);
  }

  dropCharges(settledBefore: number, limit: number): number {
    return noticingDamage(() => this.#charges?.drop(settledBefore, limit) ?? 0);
  }

  usesBlobFile(file: number): boolean {
    const sql = 'SELECT 1 AS value FROM jobs WHERE blob_low <= ? AND blob_high >= ? LIMIT 1';
    return this.#number(sql, file, file) !== undefined || this.#sessions.usesBlobFile(file);
  }

  blobFiles(): number[] {
    const ofJobs = this.#database ? rangeEnds(this.#database, 'jobs') : [];
    return [...new Set([...ofJobs, ...this.#sessions.blobFiles()])];
  }

  close(): void {
    this.#database?.close();
    this.#database = undefined;
    this.#charges = undefined;
    this.#sessions = memorySessions();
  }

  #transaction(run: () => void): void {
    noticingDamage(() => {
      this.#database?.exec('BEGIN IMMEDIATE');
      try {
        run();
        this.#database?.exec('COMMIT');
      } catch (error) {
        // On a full disk SQLite has rolled the transaction back already.
        if (this.#database?.isTransaction) this.#database.exec('ROLLBACK');
        throw error;
      }
    });
  }

  #logPoint(): LogPoint | undefined {
    const [seq, chain] = [this.#fact('log_seq'), this.#fact('log_chain')];
    if (seq === undefined || chain === undefined) return undefined;
    return { seq, chain, owner: this.#fact('log_owner') };
  }

  #fact(name: string): number | undefined {
    return this.#number('SELECT value FROM facts WHERE name = ?', name);
  }

  #number(sql: string, ...values: (string | number)[]): number | undefined {
    return numberIn(noticingDamage(() => this.#database?.prepare(sql).get(...values)));
  }

  #bundles(sql: string, ...values: (string | number)[]): JobBundle[] {
    const rows = noticingDamage(() => this.#database?.prepare(sql).all(...values)) as unknown as Row[];
    return rows.map(toBundle);
  }
}

/** Adds the columns that older layouts lack, before SCHEMA makes an index over one of them. */
function addColumns(database: DatabaseSync): void {
  const columns = database.prepare("SELECT name FROM pragma_table_info('jobs')").all();
  const names = new Set(columns.map(({ name }) => name));
  if (names.size === 0) return;
  for (const name of ['batch', 'tags', 'root'])
    if (!names.has(name)) database.exec(`ALTER TABLE jobs ADD COLUMN ${name} TEXT`);
}

const numberIn = (row: unknown): number | undefined =>
  (row as { value: number | null } | undefined)?.value ?? undefined;

function toBundle({ line }: Row): JobBundle {
  try {
    return readBundle(readLine(line));
  } catch (error) {
    // SQLite has no checksum over its pages: damage inside of a text shows only where the text is read.
    throw new HistoryDamaged('the text of a job cannot be read', { cause: error });
  }
}
