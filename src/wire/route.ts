/**
 * A route as data: what it takes, what it answers, who may call it. The server, the OpenAPI page and the test
 * that every route has a role all read the same table.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TSchema } from 'typebox';
import type { Identity, Role } from './tokens.ts';

export interface Call {
  readonly params: Readonly<Record<string, string>>;
  readonly query: unknown;
  readonly body: unknown;
  readonly headers: IncomingMessage['headers'];
  /** The path with its query, as it was asked for. */
  readonly url: string;
  readonly identity: Identity;
  readonly correlationId: string;
  /** For an answer that takes long: the connection is kept open, and it is heard of when the caller leaves before. */
  readonly onGone: (run: () => void) => void;
}

export interface Answer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is instead of a JSON body. */
  readonly text?: { readonly type: string; readonly content: string };
}

/** Takes the connection over: the handler has decided that the answer is a stream. */
export interface Stream {
  readonly stream: (request: IncomingMessage, response: ServerResponse) => void;
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With `:name` for parameters. */
  readonly path: string;
  readonly role: Role | 'public';
  readonly summary: string;
  readonly query?: TSchema;
  readonly body?: TSchema;
  /** What each status means, for people and for OpenAPI. */
  readonly answers: Readonly<Record<number, string>>;
  /**
   * What is sent on where another node answers in place of this one: a body that may arrive twice, since an answer
   * may be lost. Without it only a GET is sent again.
   */
  readonly repeatable?: (call: Call) => unknown;
  /** It answers with server-sent events, which are resumed by their ids. */
  readonly streams?: true;
  /**
   * Where another node answers in place of this one: its answer is passed on as it comes, and its caller's leaving is
   * passed on too. It is not asked again once it has been heard.
   */
  readonly passedOn?: true;
  handle(call: Call): Promise<Answer | Stream> | Answer | Stream;
}
