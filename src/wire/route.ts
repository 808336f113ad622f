/**
 * A route as data: what it takes, what it answers, who may call it. The server checks requests by it, OpenAPI shows
 * it, and tests check the answers by it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Static, TSchema } from 'typebox';
import { checker } from '../kit/check.ts';
import { OrchdError } from '../model/errors.ts';
import { requestObject, type Shape } from '../model/http/shape.ts';
import type { Identity, Role } from './tokens.ts';

export interface Call<Body = unknown, Query = unknown> {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly body: Body;
  readonly headers: IncomingMessage['headers'];
  /** The path with its query, as it was sent. */
  readonly url: string;
  readonly identity: Identity;
  readonly correlationId: string;
  /** Runs the callback when the caller leaves before its answer; the connection is kept open however long that takes. */
  readonly onGone: (run: () => void) => void;
}

export interface Answer<Status extends number = number, Body = unknown> {
  readonly status: Status;
  readonly body?: Body;
  readonly headers?: Readonly<Record<string, string>>;
  /** The body as JSON text, instead of `body`: what is stored as text is not parsed to be written again. */
  readonly json?: string;
  /** Sent unchanged instead of a JSON body. */
  readonly text?: { readonly type: string; readonly content: string };
}

/** The answer is a stream: the handler takes the connection over. */
export interface Stream {
  readonly stream: (request: IncomingMessage, response: ServerResponse) => void;
}

/** An error as an answer, where it has headers of its own; an error without them is thrown. */
export interface Failure {
  readonly error: OrchdError;
  readonly headers: Readonly<Record<string, string>>;
}

export type Handled = Answer | Failure | Stream;

/** What one status means, and the body that comes with it. */
export interface AnswerFormat {
  readonly description: string;
  readonly body?: TSchema;
  /** The media type of an answer that is not JSON. */
  readonly type?: string;
  /** Describes the server-sent events that are, or may be, the answer instead of `body`. */
  readonly events?: string;
}

/** A bare text describes an answer without a body, or an error in the format of all errors. */
export type Answers = Readonly<Record<number, string | AnswerFormat>>;

export type Tag =
  | 'jobs'
  | 'sessions'
  | 'leases'
  | 'limits'
  | 'pools'
  | 'models'
  | 'openai'
  | 'server'
  | 'worker'
  | 'pool manager';

interface RouteFacts {
  readonly operationId: string;
  readonly tag: Tag;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With `:name` for parameters. */
  readonly path: string;
  readonly role: Role | 'public';
  readonly summary: string;
  /** Request headers that the handler reads, each with what it means: for OpenAPI. */
  readonly requestHeaders?: Readonly<Record<string, string>>;
  /** Query parameters that are not in `query` are ignored: clients of other services send their own. */
  readonly ignoresQuery?: true;
  /** Throws for callers that this route itself must refuse; runs before the body is checked. */
  readonly authorize?: (headers: Call['headers']) => void;
  /** The handler checks the body by the same schema: each element of an array has an answer of its own. */
  readonly checksBody?: 'handler';
  /**
   * For a follower, which sends the request on: a body that may arrive twice, since an answer may be lost. Without
   * it only a GET is sent again.
   */
  readonly repeatable?: (call: Call) => unknown;
  /** The answer is server-sent events, which are resumed by their ids. */
  readonly streams?: true;
  /**
   * For a follower: the leader's answer is passed on as it comes, and so is the leaving of the caller. The request
   * is not sent again once the leader has received it.
   */
  readonly passedOn?: true;
}

export interface Route extends RouteFacts {
  readonly query?: TSchema;
  readonly body?: TSchema;
  readonly answers: Answers;
  handle(call: Call): Promise<Handled> | Handled;
}

type BodyOf<F> = F extends { readonly body: infer S extends TSchema } ? Shape<S> : undefined;

/** The answers that a handler may give: each status with the body that is declared for it. */
type AnswerTo<A extends Answers> = { [S in keyof A & number]: Answer<S, BodyOf<A[S]>> }[keyof A & number];

type HandledBy<A extends Answers> = AnswerTo<A> | Failure | Stream;

interface RouteDefinition<B extends TSchema, Q extends TSchema, A extends Answers, R extends HandledBy<A>>
  extends RouteFacts {
  readonly body?: B;
  readonly query?: Q;
  readonly answers: A;
  handle(call: Call<Static<B>, Static<Q>>): Promise<R> | R;
}

/** A route whose handler gets a body and a query that match their schemas; anything else is refused before it. */
export function route<
  B extends TSchema,
  Q extends TSchema,
  const A extends Answers,
  const R extends HandledBy<A>,
>(definition: RouteDefinition<B, Q, A, R>): Route {
  const { body, query, ignoresQuery, checksBody, authorize } = definition;
  const checkBody = checksBody === 'handler' ? hasBody : bodyCheck(body);
  const checkQuery = queryCheck(query, ignoresQuery ?? false);
  const handle = (call: Call): Promise<Handled> | Handled => {
    authorize?.(call.headers);
    return definition.handle({
      ...call,
      body: checkBody(call.body) as Static<B>,
      query: checkQuery(call.query) as Static<Q>,
    });
  };
  return { ...definition, handle };
}

type Check = (value: unknown) => unknown;

const Nothing = requestObject({});

function hasBody(body: unknown): unknown {
  if (body === undefined) throw new OrchdError('INVALID_PARAMS', 'the request has no body');
  return body;
}

/** A request without a body is checked as an empty object; it is refused only where something must be in it. */
function bodyCheck(schema: TSchema | undefined): Check {
  const check = lazily(() => checker(schema ?? Nothing));
  return isRequired(schema) ? (body) => check(hasBody(body)) : (body) => check(body ?? {});
}

export const isRequired = (schema: TSchema | undefined): boolean =>
  schema !== undefined && !('properties' in schema && !('required' in schema));

function queryCheck(schema: TSchema | undefined, ignoresQuery: boolean): Check {
  if (ignoresQuery && !schema) return (query) => query;
  const check = lazily(() => checker(schema ?? Nothing));
  const numbers = numberFields(schema);
  return (query) =>
    check(numbers.length === 0 ? { ...(query as object) } : withNumbers(query as object, numbers));
}

/** The values of a query are texts: those that the schema wants as numbers are read as such. */
function withNumbers(query: object, names: readonly string[]): object {
  const fields: Record<string, unknown> = { ...query };
  for (const name of names) {
    const value = fields[name];
    if (typeof value === 'string' && /^\d{1,15}$/.test(value)) fields[name] = Number(value);
  }
  return fields;
}

function numberFields(schema: TSchema | undefined): readonly string[] {
  const { properties = {} } = (schema ?? {}) as { properties?: Record<string, { type?: string }> };
  return Object.keys(properties).filter((name) => properties[name]?.type === 'integer');
}

/** Compiling the schemas of all routes would delay the start of a process that uses few of them. */
function lazily(make: () => Check): Check {
  let made: Check | undefined;
  return (value) => {
    made ??= make();
    return made(value);
  };
}
