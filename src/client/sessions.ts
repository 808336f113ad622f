/** Calls about sessions: conversations that consist of several jobs. */
import type { SessionPage, SessionSummary } from '../model/http/session-lists.ts';
import type {
  CreateSession,
  ExportedSession,
  SessionMessages,
  SessionMetadata,
  SessionView,
} from '../model/http/sessions.ts';

/** Sends a request and returns the JSON of its answer. */
export type SendCall = <T>(method: string, path: string, body?: unknown) => Promise<T>;

export class SessionClient {
  readonly #send: SendCall;

  constructor(send: SendCall) {
    this.#send = send;
  }

  create(request: CreateSession = {}): Promise<SessionView> {
    return this.#send('POST', '/v2/sessions', request);
  }

  /** The last used first: those in use or, with `archived`, those in the archive. */
  async list(request: { readonly archived?: boolean } = {}): Promise<readonly SessionSummary[]> {
    const found: SessionSummary[] = [];
    const query = new URLSearchParams({ limit: '1000', archived: String(request.archived ?? false) });
    for (;;) {
      const page = await this.#send<SessionPage>('GET', `/v2/sessions?${query}`);
      found.push(...page.sessions);
      if (page.cursor === undefined) return found;
      query.set('cursor', page.cursor);
    }
  }

  get(sessionId: string): Promise<SessionView> {
    return this.#send('GET', pathOf(sessionId));
  }

  /** What was said in the session. */
  async messages(sessionId: string): Promise<SessionMessages['messages']> {
    return (await this.#send<SessionMessages>('GET', `${pathOf(sessionId)}/messages`)).messages;
  }

  export(sessionId: string): Promise<ExportedSession> {
    return this.#send('GET', `${pathOf(sessionId)}/export`);
  }

  /** Creates a session with the messages and the metadata of an export; `newId` instead of the id that it had. */
  import({ session, messages }: ExportedSession, newId = session.session_id): Promise<SessionView> {
    const { metadata } = session;
    return this.create({ session_id: newId, metadata, messages: messages as NewMessages });
  }

  /** Replaces what a front end keeps about the session. */
  setMetadata(sessionId: string, metadata: SessionMetadata): Promise<SessionView> {
    return this.#send('PUT', `${pathOf(sessionId)}/metadata`, metadata);
  }

  /** Creates a session that begins with the messages and the metadata of this one. */
  fork(sessionId: string, newId?: string): Promise<SessionView> {
    return this.#send('POST', `${pathOf(sessionId)}/fork`, newId === undefined ? {} : { session_id: newId });
  }

  /** Cancels its jobs and deletes it with all that was said in it. */
  async delete(sessionId: string): Promise<void> {
    await this.#send('DELETE', pathOf(sessionId));
  }
}

type NewMessages = NonNullable<CreateSession['messages']>;

const pathOf = (sessionId: string): string => `/v2/sessions/${encodeURIComponent(sessionId)}`;
