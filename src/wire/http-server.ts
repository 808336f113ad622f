/**
 * The bootstrap of every server of ours: limits, correlation ids, the gate, and the one error renderer around a
 * table of routes.
 */

import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Random } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { Service } from '../kit/service.ts';
import { OrchdError, toOrchdError } from '../model/errors.ts';
import { crossOriginHeaders, preflightHeaders } from './cross-origin.ts';
import { type Credentials, Gate, type GateOptions } from './gate.ts';
import { parseJsonBody } from './json-body.ts';
import { ON_BEHALF_OF } from './nodes.ts';
import { errorShapeOf, renderError } from './render-error.ts';
import type { Answer, Call, Route, Stream } from './route.ts';

export interface HttpLimits {
  readonly maxBodyBytes: number;
  readonly maxHeaderBytes: number;
  /** For the whole request to arrive, and for its headers. */
  readonly requestTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly keepAliveMs: number;
  /** A connection on which nothing moves is closed after this; streams have a longer time of their own. */
  readonly idleMs: number;
  readonly maxConnections: number;
}

export const HTTP_LIMITS: HttpLimits = {
  maxBodyBytes: 17 * 2 ** 20,
  maxHeaderBytes: 16 * 1024,
  requestTimeoutMs: 30_000,
  headersTimeoutMs: 10_000,
  keepAliveMs: 60_000,
  idleMs: 65_000,
  maxConnections: 4096,
};

export interface HttpServerOptions {
  readonly host: string;
  readonly port: number;
  readonly routes: readonly Route[];
  readonly gate: GateOptions;
  readonly random: Random;
  readonly logger: Logger;
  readonly limits?: Partial<HttpLimits>;
}

const CORRELATION = /^[A-Za-z0-9._:-]{1,128}$/;

/** Heartbeats keep a stream alive; a reader that takes none of them for this long is gone. */
const STREAM_IDLE_MS = 600_000;

/** Whoever waits for a long answer sends nothing: the system looks whether it is still there. */
const PROBE_MS = 30_000;

const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
} as const;

const JSON_TYPE = 'application/json; charset=utf-8';

/** What `curl -d` says of a body unless it is told; the examples for OpenAI leave it at that. */
const CURL_TYPE = 'application/x-www-form-urlencoded';

const PLAIN_HEADERS = Object.entries({ ...SECURITY_HEADERS, 'content-type': JSON_TYPE }).flat();

export class HttpServer extends Service {
  readonly #options: HttpServerOptions;
  readonly #gate: Gate;
  readonly #fastify: FastifyInstance;
  readonly #methods = new Map<string, Set<string>>();

  constructor(options: HttpServerOptions) {
    super();
    this.#options = options;
    this.#gate = new Gate(options.gate);
    this.#fastify = this.#build({ ...HTTP_LIMITS, ...options.limits });
  }

  /** Where it listens: the port that it got, once it has started. */
  get port(): number {
    const address = this.#fastify.server.address();
    return typeof address === 'object' && address ? address.port : this.#options.port;
  }

  protected async onStart(): Promise<void> {
    const { host, port } = this.#options;
    await this.#fastify.listen({ host, port });
  }

  protected async onStop(): Promise<void> {
    await this.#fastify.close();
  }

  #build(limits: HttpLimits): FastifyInstance {
    const fastify = Fastify({
      bodyLimit: limits.maxBodyBytes,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionTimeout: limits.idleMs,
      forceCloseConnections: true,
      exposeHeadRoutes: false,
      routerOptions: { maxParamLength: 300 },
      http: {
        maxHeaderSize: limits.maxHeaderBytes,
        headersTimeout: limits.headersTimeoutMs,
        connectionsCheckingInterval: 1000,
      },
      clientErrorHandler: (error, socket) => rejectSocket(error, socket),
      frameworkErrors: (error, request, reply) =>
        this.#fail(error, request as FastifyRequest, reply as FastifyReply),
    });
    fastify.server.maxConnections = limits.maxConnections;
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser('application/json', { parseAs: 'buffer' }, readJson);
    fastify.addContentTypeParser(CURL_TYPE, { parseAs: 'buffer' }, (request, body: Buffer, done) => {
      // A page of another origin can send it without asking first, and is turned away by its Origin.
      if (errorShapeOf(request.url) === 'openai') readJson(request, body, done);
      else done(new OrchdError('UNSUPPORTED_MEDIA_TYPE'));
    });
    fastify.setErrorHandler((error, request, reply) => this.#fail(error, request, reply));
    fastify.setNotFoundHandler((request, reply) => this.#notFound(request, reply));
    for (const route of this.#options.routes) this.#mount(fastify, route);
    return fastify;
  }

  #mount(fastify: FastifyInstance, route: Route): void {
    const known = this.#methods.get(route.path) ?? new Set();
    this.#methods.set(route.path, known.add(route.method));
    fastify.route({
      method: route.method,
      url: route.path,
      // Before the body is read: a stranger's bytes are not worth the memory.
      onRequest: (request, _reply, done) => {
        (request as Admitted).identity = this.#gate.admit(credentialsOf(request), route.role);
        done();
      },
      // Returns nothing: waiting for a promise here makes Fastify watch every response to its end.
      handler: (request, reply) => void this.#answer(route, request as Admitted, reply),
    });
  }

  async #answer(route: Route, request: Admitted, reply: FastifyReply): Promise<void> {
    try {
      this.#send(await route.handle(this.#callOf(request, reply)), request, reply);
    } catch (error) {
      this.#fail(error, request, reply);
    }
  }

  #callOf(request: Admitted, reply: FastifyReply): Call {
    return {
      params: request.params as Record<string, string>,
      query: request.query,
      body: request.body,
      headers: request.headers,
      url: request.url,
      identity: request.identity,
      correlationId: this.#correlation(request),
      onGone: (run) => whenGone(request, reply, run),
    };
  }

  #send(answer: Answer | Stream, request: Admitted, reply: FastifyReply): void {
    if (isStream(answer)) return this.#stream(answer, request, reply);
    if (isPlain(answer) && request.headers.origin === undefined) return sendPlain(answer, request, reply);
    this.#addHeaders(request, reply);
    reply.code(answer.status);
    if (answer.headers) reply.headers(answer.headers);
    if (answer.text) void reply.type(answer.text.type).send(answer.text.content);
    else if (answer.body === undefined) void reply.send();
    else void reply.type(JSON_TYPE).send(JSON.stringify(answer.body));
  }

  #stream({ stream }: Stream, request: FastifyRequest, reply: FastifyReply): void {
    this.#addHeaders(request, reply);
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(name, value as string);
    }
    reply.hijack();
    request.raw.socket.setTimeout(STREAM_IDLE_MS);
    stream(request.raw, reply.raw);
  }

  /** What every answer carries. */
  #addHeaders(request: FastifyRequest, reply: FastifyReply): void {
    const { origin } = request.headers;
    reply.headers(SECURITY_HEADERS).header('x-correlation-id', this.#correlation(request));
    if (origin !== undefined) reply.headers(crossOriginHeaders(origin, this.#options.gate.origins));
  }

  #correlation(request: FastifyRequest): string {
    const known = (request as Partial<Admitted>).correlationId;
    if (known !== undefined) return known;
    const given = request.headers['x-correlation-id'];
    const id = typeof given === 'string' && CORRELATION.test(given) ? given : this.#options.random.hex(8);
    (request as Admitted).correlationId = id;
    return id;
  }

  #fail(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
    // Its caller has left while it still came in: nothing of ours has failed, and nobody hears an answer.
    if (request.raw.errored !== null && request.raw.errored === thrown) {
      reply.hijack();
      return;
    }
    const error = fromFramework(thrown) ?? toOrchdError(thrown);
    const correlationId = this.#correlation(request);
    if (error.code === 'INTERNAL') {
      this.#options.logger.error('a request failed', {
        correlation_id: correlationId,
        error_code: error.code,
        reason: describeThrown(error.cause),
      });
    }
    const { status, headers, body } = renderError(error, correlationId, errorShapeOf(request.url));
    this.#addHeaders(request, reply);
    void reply.code(status).headers(headers).type(JSON_TYPE).send(JSON.stringify(body));
  }

  #notFound(request: FastifyRequest, reply: FastifyReply): void {
    const path = request.url.split('?')[0] ?? '';
    const allowed = [...this.#methods].find(([pattern]) => matches(pattern, path))?.[1];
    if (allowed) void reply.header('allow', [...allowed].join(', '));
    this.#addHeaders(request, reply);
    try {
      this.#gate.admit(credentialsOf(request), 'public');
    } catch (error) {
      return this.#fail(error, request, reply);
    }
    if (allowed && request.method === 'OPTIONS' && reply.hasHeader('access-control-allow-origin')) {
      const asked = request.headers['access-control-request-headers'];
      void reply.code(204).headers(preflightHeaders(asked)).send();
      return;
    }
    this.#fail(
      new OrchdError(
        allowed ? 'METHOD_NOT_ALLOWED' : 'NOT_FOUND',
        allowed ? undefined : 'there is no such path',
      ),
      request,
      reply,
    );
  }
}

interface Admitted extends FastifyRequest {
  identity: Call['identity'];
  correlationId: string;
}

function readJson(
  request: FastifyRequest,
  body: Buffer,
  done: (error: Error | null, value?: unknown) => void,
): void {
  try {
    if (body.length > 0) refuseEncoded(request.headers['content-encoding']);
    done(null, body.length === 0 ? undefined : parseJsonBody(body));
  } catch (error) {
    done(error as Error);
  }
}

/** A few bytes could become more than any limit allows, so nothing is unpacked. */
function refuseEncoded(encoding: string | undefined): void {
  if (encoding === undefined || /^(?:identity)?$/i.test(encoding.trim())) return;
  throw new OrchdError(
    'UNSUPPORTED_MEDIA_TYPE',
    'the body has a Content-Encoding: send it as it is, without one',
  );
}

function credentialsOf({ headers }: FastifyRequest): Credentials {
  const { host, origin, authorization } = headers;
  const onBehalfOf = headers[ON_BEHALF_OF];
  return { host, origin, authorization, onBehalfOf: typeof onBehalfOf === 'string' ? onBehalfOf : undefined };
}

const isStream = (answer: Answer | Stream): answer is Stream => 'stream' in answer;

/** An answer that is JSON and nothing else, as nearly all are. */
const isPlain = (answer: Answer): boolean => answer.body !== undefined && !answer.headers && !answer.text;

/** Past the framework's reply, which costs more than the rest of a short answer. */
function sendPlain({ status, body }: Answer, { correlationId }: Admitted, reply: FastifyReply): void {
  const text = JSON.stringify(body);
  const length = String(Buffer.byteLength(text));
  reply.hijack();
  reply.raw.writeHead(status, [
    ...PLAIN_HEADERS,
    'x-correlation-id',
    correlationId,
    'content-length',
    length,
  ]);
  reply.raw.end(text);
}

function whenGone(request: FastifyRequest, reply: FastifyReply, run: () => void): void {
  const { socket } = request.raw;
  socket.setTimeout(0);
  socket.setKeepAlive(true, PROBE_MS);
  if (socket.destroyed) run();
  else
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) run();
    });
}

function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/');
  const given = path.split('/');
  return (
    wanted.length === given.length && wanted.every((part, at) => part.startsWith(':') || part === given[at])
  );
}

/** What the framework refuses by itself, in our words. */
function fromFramework(thrown: unknown): OrchdError | undefined {
  const { code, statusCode } = (thrown ?? {}) as { code?: string; statusCode?: number };
  if (thrown instanceof OrchdError || code === undefined || !code.startsWith('FST_')) return undefined;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new OrchdError('TOO_LARGE');
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return new OrchdError('UNSUPPORTED_MEDIA_TYPE');
  if (statusCode !== undefined && statusCode < 500)
    return new OrchdError('INVALID_PARAMS', 'the request is malformed');
  return undefined;
}

/**
 * Whether this socket owes an answer to a request that came before the bytes that are none: whatever is written
 * now would be read as a part of it, or in its place.
 */
function owesAnswer(socket: Socket): boolean {
  // Where Node itself looks before it writes; of several pipelined ones this is the first.
  const { _httpMessage: answer } = socket as { _httpMessage?: ServerResponse | null };
  return answer ? answer.headersSent || answer.req.complete : false;
}

/** A request that is no HTTP, or never ends: answered on the bare socket, then closed. */
function rejectSocket(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || owesAnswer(socket)) {
    socket.destroy();
    return;
  }
  const code =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? 'REQUEST_TIMEOUT'
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? 'TOO_LARGE'
        : 'INVALID_PARAMS';
  const { status, body } = renderError(new OrchdError(code), 'none');
  const text = JSON.stringify(body);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n`;
  socket.end(head + text);
}
