/**
 * The HTTP client for all outbound requests: to workers, pool managers, gateways, webhooks and other nodes.
 *
 * O1  A target is built only from a URL of the configuration or of an authenticated peer. Its host name is resolved
 *     once, so that a later change of the DNS entry cannot redirect requests elsewhere.
 * O2  Redirects are not followed: a redirect is an error, or is returned to a caller that set `returnsRedirects` and
 *     checks the destination against its own list.
 * O3  Connections, waiting times and bytes are limited. There is no queue: a target whose connections are all in use
 *     refuses the request, because only the brain queues work.
 * O4  An error names the method and the origin, never a credential, path, query or body. Its `reason` shows whether
 *     the other side may have received the request.
 */
import { promises as dns } from 'node:dns';
import http, { type ClientRequest, type IncomingHttpHeaders } from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { Timers } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import { Exchange, outboundError } from './exchange.ts';

export interface Address {
  readonly address: string;
  readonly family: number;
}

export interface OutboundOptions {
  readonly timers: Timers;
  /** Resolves a host name; the system's resolver by default. */
  readonly resolve?: (host: string) => Promise<readonly Address[]>;
  readonly limits?: Partial<OutboundLimits>;
}

export interface OutboundLimits {
  readonly connectMs: number;
  /** Timeout for a whole answer, or for the head of a stream. */
  readonly timeoutMs: number;
  /** A stream that is silent for this long is closed; heartbeats count as traffic. */
  readonly idleMs: number;
  /** Limit of the body of an answer; streams have none, because they are not buffered. */
  readonly maxBytes: number;
  /** Connections per target. Streams have connections of their own, so that they never keep a cancel waiting. */
  readonly maxCalls: number;
  readonly maxStreams: number;
}

export const OUTBOUND_LIMITS: OutboundLimits = {
  connectMs: 5000,
  timeoutMs: 30_000,
  idleMs: 60_000,
  maxBytes: 16 * 2 ** 20,
  maxCalls: 64,
  maxStreams: 1024,
};

/** Idle connections kept for the next request. */
const MAX_FREE_SOCKETS = 8;

export interface OutboundRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path below the URL of the target, with its query if there is one. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  /** With it `timeoutMs` limits the wait for the head only: the body may take any time, without a silence this long. */
  readonly idleMs?: number;
  readonly maxBytes?: number;
}

export interface OutboundStreamRequest extends Omit<OutboundRequest, 'maxBytes'> {
  /** Returns a redirect like any other answer, instead of failing. */
  readonly returnsRedirects?: boolean;
}

export interface OutboundReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface StreamReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Passes the body to `on` as it arrives. Holds a connection until the body was read or `close` was called. */
  read(on: (piece: Buffer) => void): Promise<void>;
  /** Stops reading until `resume`, so that the sender has to wait. */
  pause(): void;
  resume(): void;
  close(): void;
}

export class Outbound {
  readonly #options: OutboundOptions;
  readonly #targets = new Set<Target>();

  constructor(options: OutboundOptions) {
    this.#options = options;
  }

  /** Makes a new target on each call: only a new target resolves the host name again. */
  to(url: string): Target {
    const target = new Target(parseBase(url), this.#options, () => this.#targets.delete(target));
    this.#targets.add(target);
    return target;
  }

  /** Closes all connections; requests in flight fail. */
  close(): void {
    for (const target of [...this.#targets]) target.close();
  }
}

/** One server, with its resolved addresses and connections. */
export class Target {
  readonly origin: string;
  readonly #base: URL;
  readonly #host: string;
  readonly #options: OutboundOptions;
  readonly #limits: OutboundLimits;
  readonly #onClose: () => void;
  readonly #calls: Connections;
  readonly #streams: Connections;
  #closed = false;
  #retired = false;
  #addresses: readonly Address[] | undefined;
  #resolving: Promise<void> | undefined;

  constructor(base: URL, options: OutboundOptions, onClose: () => void) {
    this.#base = base;
    this.origin = base.origin;
    this.#host = base.hostname.replace(/^\[|\]$/g, '');
    this.#options = options;
    this.#limits = { ...OUTBOUND_LIMITS, ...options.limits };
    this.#onClose = onClose;
    this.#calls = connections(base, this.#limits.maxCalls);
    this.#streams = connections(base, this.#limits.maxStreams);
  }

  /** Sends a request and resolves to the whole answer, whatever its status. */
  async request(request: OutboundRequest): Promise<OutboundReply> {
    const exchange = this.#exchange(request, this.#calls, request.idleMs);
    const { statusCode, headers } = await exchange.head();
    const body = await exchange.readAll(request.maxBytes ?? this.#limits.maxBytes);
    return { status: statusCode as number, headers, body };
  }

  /**
   * Sends a request and resolves to the head of the answer; its body is read as it arrives, server-sent events with
   * `eachEvent`.
   */
  async stream(request: OutboundStreamRequest): Promise<StreamReply> {
    const exchange = this.#exchange(request, this.#streams, request.idleMs ?? this.#limits.idleMs);
    const { statusCode, headers } = await exchange.head();
    return {
      status: statusCode as number,
      headers,
      read: (on) => exchange.read(on),
      pause: () => exchange.pause(),
      resume: () => exchange.resume(),
      close: () => exchange.close(),
    };
  }

  /** Closes the connections: requests in flight fail, new ones are refused. */
  close(): void {
    this.#closed = true;
    for (const { agent, open } of [this.#calls, this.#streams]) {
      for (const exchange of [...open]) exchange.abort();
      agent.destroy();
    }
    this.#onClose();
  }

  /** Another target has replaced this one: requests in flight are completed, and no connection is kept afterwards. */
  retire(): void {
    this.#retired = true;
    for (const { agent } of [this.#calls, this.#streams]) {
      agent.maxFreeSockets = 0;
      for (const sockets of Object.values(agent.freeSockets))
        for (const socket of sockets ?? []) socket.destroy();
    }
    this.#closeWhenIdle();
  }

  #closeWhenIdle(): void {
    if (this.#retired && this.#calls.open.size + this.#streams.open.size === 0) this.#onClose();
  }

  #exchange(
    request: OutboundRequest | OutboundStreamRequest,
    connections: Connections,
    idleMs?: number,
  ): Exchange {
    const { connectMs, timeoutMs } = this.#limits;
    const method = request.method ?? 'GET';
    const to = `${method} ${this.origin}`;
    if (this.#closed) throw outboundError('busy', to, 'this target was closed');
    if (connections.open.size >= connections.max)
      throw outboundError('busy', to, `all ${connections.max} connections are in use`);
    const exchange = new Exchange({
      ready: () => this.#resolve(to),
      send: (connection) => this.#send(request, method, to, connection === 'any' ? connections.agent : false),
      body: request.body,
      to,
      repeatable: method === 'GET',
      timers: this.#options.timers,
      connectMs,
      timeoutMs: request.timeoutMs ?? timeoutMs,
      idleMs,
      signal: request.signal,
      returnsRedirects: 'returnsRedirects' in request && request.returnsRedirects,
      onEnd: (ended) => {
        connections.open.delete(ended);
        this.#closeWhenIdle();
      },
    });
    connections.open.add(exchange);
    return exchange;
  }

  #send(
    request: OutboundRequest | OutboundStreamRequest,
    method: string,
    to: string,
    agent: http.Agent | false,
  ): ClientRequest {
    const { protocol, port, pathname } = this.#base;
    const path = pathname.replace(/\/$/, '') + request.path;
    const lookup = pinned(this.#addresses ?? []);
    const options = { agent, method, host: this.#host, port, path, headers: request.headers, lookup };
    try {
      return protocol === 'https:' ? https.request(options) : http.request(options);
    } catch {
      // Node's own error would quote the header or path.
      throw new OrchdError(
        'INVALID_PARAMS',
        `${to}: a header or the path has characters that cannot be sent`,
      );
    }
  }

  /** Resolves the host name once (O1); only a failed lookup is repeated by the next request. */
  async #resolve(to: string): Promise<void> {
    if (this.#addresses || isIP(this.#host)) return;
    this.#resolving ??= this.#lookUp().finally(() => {
      this.#resolving = undefined;
    });
    await this.#resolving;
    if (!this.#addresses) throw outboundError('unreachable', to, 'the name could not be resolved');
  }

  async #lookUp(): Promise<void> {
    const found = await (this.#options.resolve ?? systemResolve)(this.#host).catch(() => []);
    if (found.length > 0) this.#addresses = found;
  }
}

interface Connections {
  readonly agent: http.Agent;
  readonly max: number;
  readonly open: Set<Exchange>;
}

function connections({ protocol }: URL, max: number): Connections {
  const options = { keepAlive: true, maxSockets: max, maxFreeSockets: MAX_FREE_SOCKETS };
  const agent = protocol === 'https:' ? new https.Agent(options) : new http.Agent(options);
  return { agent, max, open: new Set() };
}

export const systemResolve = (host: string): Promise<readonly Address[]> => dns.lookup(host, { all: true });

/** A lookup function that returns the pinned addresses, without asking DNS again. */
const pinned =
  (addresses: readonly Address[]): LookupFunction =>
  (_host, options, done) => {
    const first = addresses[0] as Address;
    if (options.all) done(null, [...addresses]);
    else done(null, first.address, first.family);
  };

function parseBase(text: string): URL {
  const refused = (what: string): OrchdError => new OrchdError('CONFIG_INVALID', `a URL to call ${what}`);
  // The error of `new URL` would quote the text, which may contain a password.
  if (!URL.canParse(text)) throw refused('is not valid');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused('must begin with http or https');
  if (url.username !== '' || url.password !== '') throw refused('may not contain a user name or password');
  if (url.search !== '' || url.hash !== '') throw refused('may not contain a query or fragment');
  return url;
}
