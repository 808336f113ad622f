/**
 * Moves sessions that were idle for long into the archive of the store, and finds them there when somebody needs them.
 *
 * S1  A session leaves memory only after the archive has its record: a crash in between leaves both, and memory counts.
 * S2  Writes to the archive are made one after the other: a deleted session is not archived by a move that began before.
 * S3  A look into the archive waits for a deletion of that session that is under way. One that began before is noticed by
 *     the engine, which refuses what was found (A2 in core/admission/session-archive.ts).
 * S4  A deletion that was cut short in memory alone is finished by the next brain, before it looks for that session: the
 *     record of the erasure tells it to (erasures.ts).
 */

import { IdleSessions } from '../core/admission/session-archive.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { KeyOwner } from '../core/ports/keys.ts';
import type { SessionLookup } from '../core/ports/new-job.ts';
import type { SessionArchive as ArchivePort, ArchiveQuery, SessionName } from '../core/ports/sessions.ts';
import type { Store } from '../core/ports/store.ts';
import type { State } from '../core/state/state.ts';
import { crashpoint } from '../kit/crashpoint.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { OrchdError } from '../model/errors.ts';
import { scoped } from '../model/records.ts';
import type { SessionRecord } from '../model/session-record.ts';
import type { Loop } from './loop.ts';

/** Sessions of one write to the archive. */
const BATCH = 500;
/** Sessions that one sweep moves. */
const MOST_PER_SWEEP = 5000;
/** Sessions that one search for idle ones looks at: those with live jobs stay at the front of the table. */
const LOOKS = 5000;

export interface SessionSettings {
  /** How long a session is idle before it leaves memory. */
  readonly archiveAfterMs: number;
  /** How long an archived session is kept after its last use; Infinity: until somebody deletes it. */
  readonly keepMs: number;
}

export interface SessionArchiveParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly store: Pick<Store, 'sessions'>;
  readonly settings: { readonly sessions: SessionSettings };
  readonly logger?: Logger | undefined;
}

export class SessionArchive {
  readonly #parts: SessionArchiveParts;
  readonly #archive: ArchivePort;
  readonly #idle: IdleSessions;
  /** The archive has no session, so that no look into it is needed. */
  #isEmpty = false;
  /** The last write that was begun (S2). */
  #last: Promise<unknown> = Promise.resolve();
  #isSweeping = false;
  /** The last sweep has failed. */
  #isFailing = false;
  /** Deletions under way by the id of the session's record (S3). */
  readonly #deletions = new Map<string, Promise<unknown>>();
  /** The sessions that were deleted here, until their erasure asks for it. */
  readonly #dropped = new Set<string>();
  /** Resolves when no erasure of the session is under way; undefined where none is. Set by erasures.ts. */
  whenErased: (owner: KeyOwner) => Promise<void> | undefined = () => undefined;

  constructor(parts: SessionArchiveParts) {
    this.#parts = parts;
    this.#archive = parts.store.sessions;
    this.#idle = new IdleSessions(parts.engine.state);
  }

  /** Call once the store is open. */
  async begin(): Promise<void> {
    this.#isEmpty = await this.#archive.isEmpty();
  }

  /** Whether a session that is not in memory may be in the archive. */
  needsLook(tenant: string, id: string): boolean {
    return !this.#isEmpty && this.#parts.engine.state.sessionOf(tenant, id) === undefined;
  }

  /** What is known of a session without a look into the archive. */
  get withoutLook(): SessionLookup {
    return { left: this.#parts.engine.state.sessions.left, archived: undefined };
  }

  /** Looks for a session that is not in memory. */
  async look(tenant: string, id: string): Promise<SessionLookup> {
    await this.#deletions.get(scoped(tenant, id));
    await this.whenErased({ tenant, session: id });
    const known = this.withoutLook;
    if (!this.needsLook(tenant, id)) return known;
    return { ...known, archived: await this.#archive.get(tenant, id) };
  }

  /** The archived session, unless it is in memory. */
  async find(tenant: string, id: string): Promise<SessionRecord | undefined> {
    return (await this.look(tenant, id)).archived;
  }

  /** A page of archived sessions. Left out are those in memory, which are in use, and those that are being deleted. */
  async list(query: ArchiveQuery): Promise<SessionRecord[]> {
    const { engine } = this.#parts;
    const found: SessionRecord[] = [];
    for (let before = query.before; found.length < query.limit; ) {
      const page = this.#isEmpty ? [] : await this.#archive.list({ ...query, before });
      for (const record of page) if (!isElsewhere(engine.state, record)) found.push(record);
      before = page.at(-1);
      if (page.length < query.limit) break;
    }
    return found.slice(0, query.limit);
  }

  /** The sessions that runs of this one have begun in the background, in memory or archived. */
  async begunBy({ tenant, session }: KeyOwner, since: number): Promise<readonly string[]> {
    const found = new Set<string>();
    const take = ({ tenant: of, id, origin }: SessionRecord): void => {
      if (of === tenant && origin === session) found.add(id);
    };
    const inMemory = () => {
      for (const record of this.#parts.engine.state.sessions.values()) take(record);
    };
    inMemory();
    for (let before: SessionRecord | undefined; ; ) {
      const page = await this.list({ tenant, before, limit: BATCH });
      for (const record of page) take(record);
      before = page.at(-1);
      if (page.length < BATCH || (before?.usedAt ?? 0) < since) break;
    }
    // One that came back from the archive meanwhile may have been overlooked in both.
    inMemory();
    return [...found];
  }

  /**
   * Calls `send` with what is known of a session, which passes it on to the engine; again if sessions have left memory
   * meanwhile.
   */
  async withLook<T>(tenant: string, id: string, send: (lookup: SessionLookup) => Promise<T>): Promise<T> {
    for (;;) {
      const lookup = await this.look(tenant, id);
      try {
        return await send(lookup);
      } catch (error) {
        const isOvertaken = error instanceof OrchdError && error.code === 'STORE_BUSY';
        if (!isOvertaken || lookup.left === this.withoutLook.left) throw error;
      }
    }
  }

  /** Deletes a session everywhere: `forget` deletes it in memory, given what the archive has of it. */
  async delete(tenant: string, id: string, forget: (lookup: SessionLookup) => Promise<void>): Promise<void> {
    const name = scoped(tenant, id);
    await this.#deletions.get(name);
    const deletion = this.#write(async () => {
      const archived = this.#isEmpty ? undefined : await this.#archive.get(tenant, id);
      await forget({ ...this.withoutLook, archived });
      crashpoint('sessions:after-forget');
      if (archived) await this.#archive.drop([{ tenant, id }]);
      this.#dropped.add(name);
    });
    const isOver = deletion.then(ignore, ignore);
    this.#deletions.set(name, isOver);
    try {
      await deletion;
    } finally {
      if (this.#deletions.get(name) === isOver) this.#deletions.delete(name);
    }
  }

  /** Deletes what a deletion that was cut short has left of a session (S4). */
  dropErased(tenant: string, id: string): Promise<void> {
    return this.#write(async () => {
      if (this.#dropped.delete(scoped(tenant, id)) || this.#isEmpty) return;
      await this.#archive.drop([{ tenant, id }]);
    });
  }

  /** Moves sessions that are idle, or too many, to the archive; does nothing while an earlier sweep is under way. */
  async sweep(now: number): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    try {
      for (let moved = 0; moved < MOST_PER_SWEEP; moved += BATCH)
        if ((await this.#write(() => this.#move(now))) < BATCH) break;
      this.#isFailing = false;
    } catch (error) {
      this.#failed(error as Error);
    } finally {
      this.#isSweeping = false;
    }
  }

  /** The next sweep tries again; the first failure in a row is logged. */
  #failed(error: Error): void {
    const { logger, loop } = this.#parts;
    if (!this.#isFailing && !loop.failure)
      logger?.warn('idle sessions cannot be archived', { reason: describeThrown(error) });
    this.#isFailing = true;
  }

  /** Deletes archived sessions for good whose retention is over. */
  async purge(now: number): Promise<void> {
    const { keepMs, archiveAfterMs } = this.#parts.settings.sessions;
    if (keepMs === Number.POSITIVE_INFINITY || this.#isEmpty) return;
    // A session that may still be in memory is not looked at.
    const usedBefore = now - Math.max(keepMs, archiveAfterMs);
    while (!this.#parts.loop.failure && (await this.#write(() => this.#expire(usedBefore))) === BATCH);
  }

  async #move(now: number): Promise<number> {
    const { loop, settings } = this.#parts;
    const records = this.#idle.take(now - settings.sessions.archiveAfterMs, BATCH, LOOKS);
    if (records.length === 0) return 0;
    this.#isEmpty = false;
    // A record that is not durable yet could be lost, and the archive would have a session that never was.
    await loop.durable(this.#parts.engine.state.seq);
    await this.#archive.put(records);
    crashpoint('sessions:after-archive');
    await loop.ask({ type: 'archive-sessions', records });
    return records.length;
  }

  async #expire(usedBefore: number): Promise<number> {
    const { loop } = this.#parts;
    const found = await this.#archive.oldest(usedBefore, BATCH);
    if (found.length === 0) return 0;
    const sessions = found.map(({ tenant, id }): SessionName => ({ tenant, id }));
    // The engine knows first: what a look has found before is refused from then on.
    await loop.ask({ type: 'expire-archived', sessions });
    await this.#archive.drop(sessions);
    return found.length;
  }

  #write<T>(run: () => Promise<T>): Promise<T> {
    const write = this.#last.then(run);
    this.#last = write.catch(ignore);
    return write;
  }
}

/** Whether the archived session does not count: it is in memory, or is being deleted. */
const isElsewhere = (state: State, { tenant, id }: SessionRecord): boolean =>
  state.sessionOf(tenant, id) !== undefined || state.tables.erasure.get(scoped(tenant, id)) !== undefined;

function ignore(): void {}
