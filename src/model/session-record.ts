/** The record of a conversation, and of the backends that have heard it. */
import type { Body } from './body.ts';
import type { BlobPart } from './composed.ts';

/** What a backend has of a conversation. */
export interface SessionThread {
  readonly backend: string;
  /** The backend's own id of the conversation; undefined where it only has a cache of what it was sent. */
  readonly thread: string | undefined;
  /** The number of messages that the backend has heard, its own answers included. */
  readonly heard: number;
  /** The hash of these messages (model/heard.ts); undefined without a thread. */
  readonly hash: string | undefined;
}

/** A conversation; see core/admission/session.ts. */
export interface SessionRecord {
  readonly v: 3;
  readonly tenant: string;
  readonly id: string;
  readonly createdAt: number;
  readonly usedAt: number;
  /** The number of ended tries of the session's jobs whose number of tokens is known. */
  readonly turns: number;
  readonly tokensUsed: number;
  readonly tokenBudget: number | undefined;
  /** The last backends that ran jobs of the session, the latest one last; at most MAX_THREADS. */
  readonly threads: readonly SessionThread[] | undefined;
  /** The messages of the conversation: what its runs have heard and said. */
  readonly messages: BlobPart | undefined;
  /** SessionMetadata as JSON text. */
  readonly metadata: Body | undefined;
  /** The session of the run that has begun this one in the background: what is said here comes from there. */
  readonly origin?: string | undefined;
  /** It is the origin of others, which are deleted with it. */
  readonly isOrigin?: true | undefined;
}

/** The tenant and the id of a session, from the id of its record. */
export function sessionName(id: string): Pick<SessionRecord, 'tenant' | 'id'> {
  const end = id.indexOf('~');
  return { tenant: id.slice(0, end), id: id.slice(end + 1) };
}
