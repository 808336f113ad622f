/**
 * A route as data: its request, its answers, and the role it requires. The server checks requests against it, OpenAPI
 * is generated from it, and tests check answers against it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Static, TSchema } from 'typebox';
import { checker } from '../kit/check.ts';
import type { BodySize } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';
import { requestObject, type Shape } from '../model/http/shape.ts';
import type { Identity, Role } from './tokens.ts';

export interface Call<Body = unknown, Query = unknown> {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly body: Body;
  readonly bodySize: BodySize;
  readonly headers: IncomingMessage['headers'];
  /** The path with its query, unchanged. */
  readonly url: string;
  readonly identity: Identity;
  readonly correlationId: string;
  /**
   * Registers a callback that runs if the caller disconnects before the answer is sent. This also disables the idle
   * timeout of the connection, so that an answer may take any time.
   */
  readonly onDisconnect: (run: () => void) => void;
}

export interface Answer<Status extends number = number, Body = unknown> {
  readonly status: Status;
  readonly body?: Body;
  readonly headers?: Readonly<Record<string, string>>;
  /** The body as JSON text, instead of `body`: a stored text need not be parsed only to be serialised again. */
  readonly json?: string | LargeJson;
  /** A body that is sent unchanged, instead of `body`. */
  readonly text?: { readonly type: string; readonly content: string | Buffer };
}

/** A large JSON text, as text or in UTF-8; other answers may share the same bytes. It counts as used memory already. */
export interface LargeJson {
  readonly pieces: readonly (string | Buffer)[];
  /** Called when the answer was sent, or cannot be. */
  release(): void;
}

/** An answer that is streamed: the handler takes over the connection. */
export interface Stream {
  readonly stream: (request: IncomingMessage, response: ServerResponse) => void;
}

/** An error with response headers of its own. An error without them is thrown. */
export interface ErrorAnswer {
  readonly error: OrchdError;
  readonly headers: Readonly<Record<string, string>>;
}

export type HandlerResult = Answer | ErrorAnswer | Stream;

/** The description and body of the answer with one status, for OpenAPI. */
export interface AnswerFormat {
  readonly description: string;
  readonly body?: TSchema;
  /** The media type of an answer that is not JSON. */
  readonly type?: string;
  /** Describes the server-sent events that the route sends, always or on request, instead of `body`. */
  readonly events?: string;
}

/**
 * The answers of a route by status. A string describes an answer without a body, or an error in the common error
 * format.
 */
export type Answers = Readonly<Record<number, string | AnswerFormat>>;

export type Tag =
  | 'jobs'
  | 'batches'
  | 'agents'
  | 'modules'
  | 'sessions'
  | 'leases'
  | 'limits'
  | 'schedules'
  | 'money'
  | 'governance'
  | 'control'
  | 'pools'
  | 'consumers'
  | 'models'
  | 'openai'
  | 'mcp'
  | 'server'
  | 'worker'
  | 'pool manager'
  | 'gateway';

interface RouteBase {
  readonly operationId: string;
  readonly tag: Tag;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path with `:name` for each parameter. */
  readonly path: string;
  readonly role: Role | 'public';
  /**
   * `global`: the route acts on, or shows, what all tenants share, so only callers of the default tenant are admitted
   * (docs/decisions/0021). Every other route keeps tenants apart: it reaches only what belongs to the caller's tenant.
   */
  readonly scope?: 'global';
  /** Answers whatever the Host header is: probes of load balancers and containers send their own names. */
  readonly answersAnyHost?: boolean;
  readonly summary: string;
  /** Each refused request leaves a line in the log: somebody has given an order about what is not there, or not any more. */
  readonly logsRefusals?: true;
  /** Request headers that the handler reads, each with its description for OpenAPI. */
  readonly requestHeaders?: Readonly<Record<string, string>>;
  /** Accepts query parameters that are not in `query`: clients of other services send their own. */
  readonly ignoresQuery?: true;
  /** Throws for callers that this route itself must refuse; runs before the body is checked. */
  readonly authorize?: (headers: Call['headers']) => void;
  /**
   * The handler checks the body itself, with the same schema, because each element of an array gets an answer of its
   * own.
   */
  readonly checksBody?: 'handler';
  /**
   * The route takes arrays, and also their elements one a line (NDJSON): `handle` is called with arrays of them, and its
   * answer has `answers`, one for each element. This function counts the stream of a caller, or throws; what it returns
   * is called at the end.
   */
  readonly takesLines?: (caller: Identity) => () => void;
  /**
   * Returns a body that is safe to send twice, with generated ids filled in for example. A node that forwards the
   * request may then repeat it if the answer is lost. Without this function only a GET is repeated.
   */
  readonly repeatable?: (call: Call) => unknown;
  /**
   * Set for a route that always answers with server-sent events. At the brain these must have ids: a node that does not
   * lead reopens the stream after the last event if the leader changes, so that the caller notices nothing.
   */
  readonly streams?: true;
  /**
   * Set for a route whose answer takes as long as a job, or is streamed without event ids, so that it cannot be resumed. A
   * node that does not lead copies the leader's answer as it arrives, and disconnects from the leader when the caller
   * disconnects. The request is not repeated once the leader has received it. A route with neither `streams` nor
   * `isProxied` has a short answer that is read as a whole.
   */
  readonly isProxied?: true;
}

export interface Route extends RouteBase {
  readonly query?: TSchema;
  readonly body?: TSchema;
  readonly answers: Answers;
  handle(call: Call): Promise<HandlerResult> | HandlerResult;
}

type BodyOf<F> = F extends { readonly body: infer S extends TSchema } ? Shape<S> : undefined;

/** The answers that a handler may return: each status with the body declared for it. */
type AnswerTo<A extends Answers> = { [S in keyof A & number]: Answer<S, BodyOf<A[S]>> }[keyof A & number];

type HandlerResultOf<A extends Answers> = AnswerTo<A> | ErrorAnswer | Stream;

interface RouteDefinition<
  B extends TSchema,
  Q extends TSchema,
  A extends Answers,
  R extends HandlerResultOf<A>,
> extends RouteBase {
  readonly body?: B;
  readonly query?: Q;
  readonly answers: A;
  handle(call: Call<Static<B>, Static<Q>>): Promise<R> | R;
}

/**
 * Defines a route. Its handler receives a body and a query that match their schemas; any other request is refused
 * first.
 */
export function route<
  B extends TSchema,
  Q extends TSchema,
  const A extends Answers,
  const R extends HandlerResultOf<A>,
>(definition: RouteDefinition<B, Q, A, R>): Route {
  const { body, query, ignoresQuery, checksBody, authorize } = definition;
  const checkBody = checksBody === 'handler' ? hasBody : bodyCheck(body);
  const checkQuery = queryCheck(query, ignoresQuery ?? false);
  const handle = (call: Call): Promise<HandlerResult> | HandlerResult => {
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

const EmptyObject = requestObject({});

function hasBody(body: unknown): unknown {
  if (body === undefined) throw new OrchdError('INVALID_PARAMS', 'the request has no body');
  return body;
}

/** A missing body counts as an empty object if all properties of the schema are optional; otherwise it is refused. */
function bodyCheck(schema: TSchema | undefined): Check {
  const check = lazily(() => checker(schema ?? EmptyObject));
  return isBodyRequired(schema) ? (body) => check(hasBody(body)) : (body) => check(body ?? {});
}

/** Whether a request must have a body: the schema is not an object, or has required properties. */
export const isBodyRequired = (schema: TSchema | undefined): boolean =>
  schema !== undefined && !('properties' in schema && !('required' in schema));

function queryCheck(schema: TSchema | undefined, ignoresQuery: boolean): Check {
  if (ignoresQuery && !schema) return (query) => query;
  const check = lazily(() => checker(schema ?? EmptyObject));
  const numbers = numberFields(schema);
  return (query) =>
    check(numbers.length === 0 ? { ...(query as object) } : withNumbers(query as object, numbers));
}

/** Query values are strings: those that the schema declares as integers are converted. */
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

/**
 * Compiles a schema at its first use: compiling those of all routes would delay the start of a process that uses few.
 */
function lazily(make: () => Check): Check {
  let made: Check | undefined;
  return (value) => {
    made ??= make();
    return made(value);
  };
}
