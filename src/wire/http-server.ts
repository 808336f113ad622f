/**
 * The HTTP server of every daemon: limits, correlation ids, the access gate and the error renderer around a table of
 * routes, on node:http (docs/decisions/0019).
 *
 * H1  The gate decides before a byte of the body is read.
 * H2  Every response carries a correlation id and the security headers; every failure is an error of the catalogue.
 * H3  An error thrown by a handler ends its own request only.
 */
import { channel } from 'node:diagnostics_channel';
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { parse as parseQuery } from 'node:querystring';
import type { Duplex } from 'node:stream';
import { ByteRoom } from '../kit/byte-room.ts';
import type { Random, Timers } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { Service } from '../kit/service.ts';
import { OrchdError, toOrchdError } from '../model/errors.ts';
import { AccessGate, type AccessGateOptions, credentialsOf } from './access-gate.ts';
import { BodyRoom } from './body-room.ts';
import { type ConnectionLimits, Connections } from './connections.ts';
import { crossOriginHeaders, preflightHeaders } from './cross-origin.ts';
import { CORRELATION_ID } from './headers.ts';
import { type Observed, ObservedRequest } from './http-observer.ts';
import type { RequestBody } from './json-body.ts';
import { isLarge, LargeAnswers, releaseOf } from './large-answers.ts';
import { isNdjson, LineStream, linesHandler } from './line-stream.ts';
import { isRefusal, RefusalLog, type RefusedRequest } from './refusal-log.ts';
import { rejectSocket } from './reject-socket.ts';
import { errorShapeOf } from './render-error.ts';
import { type BodyOptions, CallerDisconnected, checkEncoding, readBody } from './request-body.ts';
import { requestTarget } from './request-target.ts';
import { contentOf, type HttpExchange, sendAnswer, sendError, setCommonHeaders } from './respond.ts';
import type { Answer, Call, HandlerResult, Route } from './route.ts';
import { type PathMatch, Router } from './router.ts';
import { TokenExchanges } from './token-exchanges.ts';

export interface HttpLimits extends ConnectionLimits {
  readonly maxBodyBytes: number;
  readonly maxHeaderBytes: number;
  /** Timeout for receiving a whole request; its headers must arrive within `headersTimeoutMs`. */
  readonly requestTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly keepAliveMs: number;
  /** A connection without traffic is closed after this time; streams have STREAM_IDLE_MS instead. */
  readonly idleMs: number;
  /** Bytes of all bodies that are being received or parsed at one time. */
  readonly maxBodyBytesInFlight: number;
  /** Bytes of all large answers that are being sent at one time. */
  readonly maxAnswerBytesInFlight: number;
}

export const HTTP_LIMITS: HttpLimits = {
  maxBodyBytes: 17 * 2 ** 20,
  maxHeaderBytes: 16 * 1024,
  requestTimeoutMs: 30_000,
  headersTimeoutMs: 10_000,
  keepAliveMs: 60_000,
  idleMs: 65_000,
  maxConnections: 4096,
  // The callers of a worker or a pool manager are few, and all of a brain's requests come from one address.
  maxConnectionsPerAddress: Number.POSITIVE_INFINITY,
  maxBodyBytesInFlight: 256 * 2 ** 20,
  maxAnswerBytesInFlight: 256 * 2 ** 20,
};

export interface HttpServerOptions {
  readonly host: string;
  readonly port: number;
  readonly routes: readonly Route[];
  readonly gate: AccessGateOptions;
  readonly random: Random;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly limits?: Partial<HttpLimits>;
  readonly observed?: Observed;
  /** Shared with whatever else holds the content of large answers; instead of `maxAnswerBytesInFlight`. */
  readonly answerRoom?: ByteRoom;
}

/** An answer and its route, published on ANSWER_CHANNEL: tests compare the answer with the schema in OpenAPI. */
export interface AnswerMessage {
  readonly route: Route;
  readonly answer: Answer;
}

export const ANSWER_CHANNEL = 'orchd:http:answer';

const answers = channel(ANSWER_CHANNEL);

const CORRELATION_FORM = /^[A-Za-z0-9._:-]{1,128}$/;

/** What the gate requires of a request that has no route. */
const PUBLIC = { role: 'public' } as const;

/** Idle timeout of a stream's connection; openEventStream replaces it by its heartbeats. */
const STREAM_IDLE_MS = 600_000;

/** Interval of TCP probes for a caller that waits for a long answer and sends nothing: they detect that it is gone. */
const KEEP_ALIVE_PROBE_MS = 30_000;

const SLOW_REQUEST_CHECK_MS = 1000;

/** How long the rest of a request is still received, and dropped, after its answer: the client reads the answer then. */
const REST_OF_REQUEST_MS = 1000;

export class HttpServer extends Service {
  readonly #options: HttpServerOptions;
  readonly #limits: HttpLimits;
  readonly #gate: AccessGate;
  readonly #router: Router;
  readonly #connections: Connections;
  readonly #server: Server;
  readonly #tokenExchanges = new TokenExchanges();
  readonly #bodyRoom: BodyRoom;
  readonly #largeAnswers: LargeAnswers;
  /** The connections on which lines arrive. */
  readonly #lineSockets = new WeakSet<Duplex>();
  readonly #refusals: RefusalLog;

  constructor(options: HttpServerOptions) {
    super();
    this.#options = options;
    this.#limits = { ...HTTP_LIMITS, ...options.limits };
    this.#gate = new AccessGate(options.gate);
    this.#router = new Router(options.routes);
    this.#connections = new Connections(this.#limits);
    this.#bodyRoom = new BodyRoom(this.#limits.maxBodyBytesInFlight);
    const answerRoom = options.answerRoom ?? new ByteRoom(this.#limits.maxAnswerBytesInFlight);
    this.#largeAnswers = new LargeAnswers(answerRoom, options.timers);
    this.#refusals = new RefusalLog(options.logger, options.timers);
    this.#server = this.#build(this.#limits);
  }

  /** The port it listens on; with `port: 0` in the options, the one that the system chose at the start. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address ? address.port : this.#options.port;
  }

  /** Ends the requests in progress, streams included, whose tokens have been revoked. */
  endRevoked(): void {
    this.#tokenExchanges.endRevoked(this.#options.gate.tokens());
  }

  protected onStart(): Promise<void> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port }, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }

  protected async onStop(): Promise<void> {
    this.#refusals.stop();
    if (!this.#server.listening) return;
    await new Promise((resolve) => {
      this.#server.close(resolve);
      this.#server.closeAllConnections();
    });
  }

  #build(limits: HttpLimits): Server {
    const server = createServer(
      {
        maxHeaderSize: limits.maxHeaderBytes,
        requestTimeout: limits.requestTimeoutMs,
        headersTimeout: limits.headersTimeoutMs,
        keepAliveTimeout: limits.keepAliveMs,
        connectionsCheckingInterval: SLOW_REQUEST_CHECK_MS,
        // Node would answer a request without Host itself, without a body.
        requireHostHeader: false,
      },
      (request, response) => void this.#serve(request, response),
    );
    server.setTimeout(limits.idleMs);
    server.on('connection', this.#connections.accept);
    server.on('clientError', (error: Error & { code?: string }, socket) => {
      const isSlow = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
      if (!isSlow || !this.#lineSockets.has(socket)) rejectSocket(error, socket);
    });
    // Of `Expect` only `100-continue` is defined. Without a listener Node answers any other itself, without a body.
    server.on('checkExpectation', (request, response) =>
      this.#fail(
        new OrchdError('INVALID_PARAMS', 'this Expect header is not supported'),
        this.#exchangeOf(request, response),
      ),
    );
    return server;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    const place = this.#connections.begin(socket);
    const observed = new ObservedRequest(this.#options.observed);
    response.once('close', () => {
      this.#connections.end(socket);
      observed.closed(request, response);
    });
    if (place === 'reserved') response.shouldKeepAlive = false;
    // Pipelined requests are served one after another: at once, they could hold any number of answers in memory.
    if (!response.socket && !(await isNext(response))) return;
    const exchange = this.#exchangeOf(request, response);
    try {
      const { method = '' } = request;
      const url = requestTarget(request);
      const queryAt = url.indexOf('?');
      const match = this.#router.find(queryAt < 0 ? url : url.slice(0, queryAt));
      const route = match?.routes.get(method);
      if (!match || !route) return this.#unrouted(match, exchange);
      observed.route = route;
      const identity = this.#gate.admit(credentialsOf(request), route);
      if (place === 'reserved' && route.role !== 'public') throw new OrchdError('TOO_MANY_CONNECTIONS');
      this.#tokenExchanges.add(exchange, identity);
      const call: Call = {
        params: match.params,
        query: queryAt < 0 ? {} : parseQuery(url.slice(queryAt + 1)),
        body: undefined,
        bodySize: 'small',
        headers: request.headers,
        url,
        identity,
        correlationId: exchange.correlationId,
        onDisconnect: (run) => onDisconnect(exchange, run),
      };
      observed.isStream = route.takesLines !== undefined && isNdjson(request.headers);
      if (observed.isStream) return await this.#serveLines(route, call, exchange);
      const read = (): Promise<RequestBody> => readBody(request, this.#bodyOptions(url));
      const body = method === 'GET' ? undefined : await observed.body(read);
      const answer = await route.handle(body ? { ...call, body: body.value, bodySize: body.size } : call);
      observed.isStream = 'stream' in answer;
      this.#send(route, answer, exchange);
    } catch (error) {
      this.#fail(error, exchange);
    }
  }

  async #serveLines(route: Route, call: Call, exchange: HttpExchange): Promise<void> {
    const { request, response, correlationId } = exchange;
    checkEncoding(request.headers['content-encoding']);
    const release = route.takesLines?.(call.identity);
    const { socket } = request;
    setCommonHeaders(exchange);
    response.once('close', () => this.#tokenExchanges.remove(exchange));
    // The request may take any time as a whole: only silence ends it.
    this.#lineSockets.add(socket);
    socket.setTimeout(STREAM_IDLE_MS);
    const { timers } = this.#options;
    const parts = { timers, correlationId, maxLineBytes: this.#limits.maxBodyBytes, room: this.#bodyRoom };
    const handle = linesHandler(route, call);
    await new LineStream({ ...parts, handle }, request, response).run().finally(release);
    this.#lineSockets.delete(socket);
    if (!socket.destroyed) socket.setTimeout(this.#limits.idleMs);
  }

  #bodyOptions(url: string): BodyOptions {
    return {
      maxBytes: this.#limits.maxBodyBytes,
      takesCurlType: errorShapeOf(url) === 'openai',
      room: this.#bodyRoom,
      timers: this.#options.timers,
    };
  }

  #exchangeOf(request: IncomingMessage, response: ServerResponse): HttpExchange {
    const { origin } = request.headers;
    const given = request.headers[CORRELATION_ID];
    const isGiven = typeof given === 'string' && CORRELATION_FORM.test(given);
    return {
      request,
      response,
      correlationId: isGiven ? given : this.#options.random.hex(8),
      crossOrigin:
        origin === undefined ? undefined : crossOriginHeaders(origin, this.#options.gate.allowedOrigins),
    };
  }

  #send(route: Route, answer: HandlerResult, exchange: HttpExchange): void {
    if ('error' in answer) return this.#fail(answer.error, exchange, answer.headers);
    if (!('stream' in answer)) {
      this.#tokenExchanges.remove(exchange);
      const content = contentOf(answer);
      // The token was revoked meanwhile, and the caller was told so.
      if (exchange.response.headersSent) return releaseOf(content);
      if (answers.hasSubscribers) answers.publish({ route, answer } satisfies AnswerMessage);
      // A handler that waited long has switched the timeout off: a client that does not read must not stay for ever.
      if (exchange.request.socket.timeout === 0) exchange.request.socket.setTimeout(this.#limits.idleMs);
      this.#dropRest(exchange);
      if (!isLarge(content)) return sendAnswer(answer, content, exchange);
      try {
        return this.#largeAnswers.send(answer, content, exchange, route.tag === 'server');
      } catch (error) {
        return this.#fail(error, exchange, answer.headers);
      }
    }
    const { request, response } = exchange;
    if (response.headersSent) {
      // The token was revoked meanwhile: the handler finds its caller gone, and releases what the stream holds.
      request.socket.destroy();
      return answer.stream(request, new ServerResponse(request));
    }
    if (request.socket.destroyed) this.#tokenExchanges.remove(exchange);
    else response.once('close', () => this.#tokenExchanges.remove(exchange));
    setCommonHeaders(exchange);
    request.socket.setTimeout(STREAM_IDLE_MS);
    answer.stream(request, response);
  }

  #fail(thrown: unknown, exchange: HttpExchange, headers: Answer['headers'] = {}): void {
    this.#tokenExchanges.remove(exchange);
    if (thrown instanceof CallerDisconnected) return;
    const error = toOrchdError(thrown);
    const { isLogged, ...refused } = this.#describe(exchange);
    if (isRefusal(error) || isLogged) this.#refusals.note(error, refused);
    if (error.code === 'INTERNAL') {
      this.#options.logger.error('a request failed', {
        correlation_id: exchange.correlationId,
        error_code: error.code,
        reason: describeThrown(error.cause),
      });
    }
    this.#dropRest(exchange);
    if (exchange.response.headersSent) exchange.response.destroy();
    else sendError(error, exchange, headers);
  }

  #describe({ request, correlationId }: HttpExchange): RefusedRequest & { readonly isLogged: boolean } {
    const { method = '', url = '', socket } = request;
    // The target as it was sent: one that names another host has no route here.
    const [path = ''] = url.split('?');
    const route = this.#router.findReadable(path)?.routes.get(method);
    const address = socket.remoteAddress;
    const isLogged = route?.logsRefusals === true;
    return { route: route ? `${method} ${route.path}` : 'none', address, correlationId, isLogged };
  }

  /** Ends the connection of a request that is answered before it has arrived, unless the rest of it arrives soon. */
  #dropRest({ request, response }: HttpExchange): void {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
    const hasBody = length !== '0' || encoding !== undefined;
    // `complete` is set a moment later, also for a request without a body.
    if (!hasBody || request.complete || request.destroyed) return;
    // Node would close the connection at once if the client asked for that: a client that still sends would get a reset
    // instead of the answer.
    response.shouldKeepAlive = true;
    const cancel = this.#options.timers.after(REST_OF_REQUEST_MS, () => request.socket.destroy());
    request.once('end', cancel);
    request.once('close', cancel);
  }

  /** Answers preflight requests, wrong methods and unknown paths; the gate checks their Host and Origin too. */
  #unrouted(match: PathMatch | undefined, exchange: HttpExchange): void {
    const { request, crossOrigin } = exchange;
    const headers: Record<string, string> = match ? { allow: [...match.routes.keys()].join(', ') } : {};
    try {
      this.#gate.admit(credentialsOf(request), PUBLIC);
      const isAllowedOrigin = crossOrigin !== undefined && 'access-control-allow-origin' in crossOrigin;
      if (match && request.method === 'OPTIONS' && isAllowedOrigin) {
        const requestedHeaders = request.headers['access-control-request-headers'];
        const answer = { status: 204, headers: { ...headers, ...preflightHeaders(requestedHeaders) } };
        return sendAnswer(answer, undefined, exchange);
      }
      throw match
        ? new OrchdError('METHOD_NOT_ALLOWED')
        : new OrchdError('NOT_FOUND', 'there is no such path');
    } catch (error) {
      this.#fail(error, exchange, headers);
    }
  }
}

/** Resolves when the answers to earlier requests of the connection are sent; to false where the connection closed. */
function isNext(response: ServerResponse): Promise<boolean> {
  return new Promise((resolve) => {
    response.once('socket', () => resolve(true));
    response.once('close', () => resolve(false));
  });
}

function onDisconnect({ request, response }: HttpExchange, run: () => void): void {
  const { socket } = request;
  socket.setTimeout(0);
  socket.setKeepAlive(true, KEEP_ALIVE_PROBE_MS);
  if (socket.destroyed) run();
  else
    response.once('close', () => {
      if (!response.writableFinished) run();
    });
}
