/** Reads of sessions, in memory or in the archive, which they do not leave for being read. */

import type { Engine } from '../core/engine/engine.ts';
import { OrchdError } from '../model/errors.ts';
import type { SessionPage } from '../model/http/session-lists.ts';
import type { SessionMetadata, SessionView } from '../model/http/sessions.ts';
import type { SessionRecord } from '../model/session-record.ts';
import type { Bodies } from './bodies.ts';
import type { Loop } from './loop.ts';
import type { SessionArchive } from './session-archive.ts';
import { listSessions, type SessionListRequest } from './session-list.ts';
import { sessionView } from './views.ts';
import { whenDurable } from './when-durable.ts';

export interface SessionReadsParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly bodies: Bodies;
  readonly sessionArchive: SessionArchive;
}

export class SessionReads {
  readonly #parts: SessionReadsParts;

  constructor(parts: SessionReadsParts) {
    this.#parts = parts;
  }

  async get(tenant: string, id: string): Promise<SessionView> {
    const record = await this.#find(tenant, id);
    if (!record) throw new OrchdError('NOT_FOUND', `there is no session "${id}"`);
    return this.view(record);
  }

  async view(record: SessionRecord): Promise<SessionView> {
    const { engine, bodies } = this.#parts;
    const isArchived = engine.state.sessionOf(record.tenant, record.id) === undefined;
    const view = await this.#whenDurable(sessionView(engine.state, record, isArchived));
    if (record.metadata === undefined) return view;
    // A change may have been sealed before the session was emptied, and written after it.
    const text = await bodies.readable(record.metadata);
    return text === undefined ? view : { ...view, metadata: JSON.parse(text) as SessionMetadata };
  }

  /** What was said in a session; nothing for one that is not known. */
  async messages(tenant: string, id: string): Promise<readonly unknown[]> {
    const record = await this.#find(tenant, id);
    const part = await this.#whenDurable(record?.messages);
    return part ? (JSON.parse(`[${await this.#parts.bodies.read(part.ref)}]`) as unknown[]) : [];
  }

  /** A page of the sessions of a tenant that are in memory or, if that is asked for, of those in the archive. */
  list(request: SessionListRequest): Promise<SessionPage> {
    const { engine, sessionArchive } = this.#parts;
    return this.#whenDurable(listSessions(engine.state, sessionArchive, request));
  }

  async #find(tenant: string, id: string): Promise<SessionRecord | undefined> {
    const { engine, sessionArchive } = this.#parts;
    const inMemory = engine.state.sessionOf(tenant, id);
    if (inMemory) return inMemory;
    const archived = await sessionArchive.find(tenant, id);
    return engine.state.sessionOf(tenant, id) ?? archived;
  }

  #whenDurable<T>(value: T | Promise<T>): Promise<T> {
    return whenDurable(this.#parts, value);
  }
}
