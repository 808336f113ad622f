/** Commands to sessions: conversations that consist of several jobs. Each resolves once its change is durable. */

import type { SessionContent } from '../core/admission/session.ts';
import type { Engine } from '../core/engine/engine.ts';
import { OrchdError } from '../model/errors.ts';
import { MAX_PREFERENCES_CHARS, type SessionMetadata, type SessionView } from '../model/http/sessions.ts';
import type { SessionRecord } from '../model/session-record.ts';
import type { Bodies, BodyOwner } from './bodies.ts';
import { Commands } from './command-order.ts';
import type { Erasures } from './erasures.ts';
import type { Loop } from './loop.ts';
import type { Reads } from './reads.ts';
import type { SessionArchive } from './session-archive.ts';

export interface NewSession {
  readonly metadata?: SessionMetadata | undefined;
  readonly messages?: readonly unknown[] | undefined;
}

export interface SessionCommandParts {
  readonly loop: Loop;
  readonly engine: Engine;
  readonly bodies: Bodies;
  readonly reads: Reads;
  readonly sessionArchive: SessionArchive;
  readonly erasures: Erasures;
}

export class SessionCommands extends Commands {
  readonly #bodies: Bodies;
  readonly #reads: Reads;
  readonly archive: SessionArchive;
  readonly #erasures: Erasures;

  constructor({ loop, engine, bodies, reads, sessionArchive, erasures }: SessionCommandParts) {
    super(loop, engine);
    this.#bodies = bodies;
    this.#reads = reads;
    this.archive = sessionArchive;
    this.#erasures = erasures;
    erasures.deleteSession = ({ tenant, session }) => this.#removeBegun(tenant, session);
  }

  async create(tenant: string, id: string, { metadata, messages = [] }: NewSession): Promise<SessionView> {
    // Found here already, a session costs no bodies that nobody needs.
    const isThere = this.engine.state.sessionOf(tenant, id) ?? (await this.archive.find(tenant, id));
    if (isThere) throw new OrchdError('SESSION_CONFLICT');
    const owner: BodyOwner = { tenant, session: id, root: id };
    const content: SessionContent = {
      ...(metadata && { metadata: await this.#metadata(metadata, owner) }),
      ...(messages.length > 0 && { messages: await this.#bodies.append(undefined, messages, owner) }),
    };
    return this.#view(
      await this.archive.withLook(tenant, id, (lookup) =>
        this.order({ type: 'create-session', tenant, id, content, lookup }),
      ),
    );
  }

  /** A session of its own that begins with the messages and the metadata of another one. */
  async fork(tenant: string, id: string, newId: string): Promise<SessionView> {
    const { metadata } = await this.#reads.sessions.get(tenant, id);
    const messages = await this.#reads.sessions.messages(tenant, id);
    return this.create(tenant, newId, { metadata, messages });
  }

  async change(tenant: string, id: string, metadata: SessionMetadata): Promise<SessionView> {
    const body = await this.#metadata(metadata, { tenant, session: id, root: id });
    return this.#view(
      await this.archive.withLook(tenant, id, (lookup) =>
        this.order({ type: 'session-metadata', tenant, id, metadata: body, lookup }),
      ),
    );
  }

  async setBudget(tenant: string, id: string, tokenBudget: number | undefined): Promise<SessionView> {
    return this.#view(
      await this.archive.withLook(tenant, id, (lookup) =>
        this.order({ type: 'budget', tenant, id, tokenBudget, lookup }),
      ),
    );
  }

  /**
   * Cancels the jobs of the session and ends it, also where it is archived; resolves when all of that is durable, and nobody
   * can read its texts any more. With `keepsBudget` its budget stays, with what was used of it.
   */
  async remove(tenant: string, id: string, by: string, keepsBudget = false): Promise<void> {
    await this.archive.delete(tenant, id, async (lookup) => {
      await this.order({ type: 'forget-session', tenant, id, by, keepsBudget, lookup });
    });
    await this.#erasures.whenErased({ tenant, session: id });
  }

  /** A session whose origin is deleted goes with it. Somebody may have deleted it before. */
  async #removeBegun(tenant: string, id: string): Promise<void> {
    try {
      await this.remove(tenant, id, 'orchd', true);
    } catch (error) {
      if (!(error instanceof OrchdError) || error.code !== 'NOT_FOUND') throw error;
    }
  }

  #view(record: SessionRecord): Promise<SessionView> {
    return this.#reads.sessions.view(record);
  }

  #metadata(metadata: SessionMetadata, owner: BodyOwner): Promise<SessionRecord['metadata']> {
    const chars = JSON.stringify(metadata.preferences ?? {}).length;
    if (chars > MAX_PREFERENCES_CHARS)
      throw new OrchdError(
        'INVALID_PARAMS',
        `"preferences" has ${chars} characters as JSON; at most ${MAX_PREFERENCES_CHARS} are kept`,
        { field: 'metadata.preferences' },
      );
    return this.#bodies.store(JSON.stringify(metadata), owner);
  }
}
