/**
 * The way out: every request of ours to a worker, pool manager, gateway or webhook goes through here.
 *
 * O1  A target is made of a URL of the configuration, or of an authenticated pool, and of nothing else. Its name
 *     is resolved once: whoever controls the name later cannot lead us elsewhere.
 * O2  Nothing is followed: a redirect is an error, or is handed to a caller who asked for it and has a list of where
 *     it may lead.
 * O3  Everything has a bound: connections, waits, bytes. There is no queue here; a target whose connections are
 *     all in use refuses, because waiting is the brain's own business.
 * O4  What is said of a failure names the method and the origin, never a credential, a path, a query or a body.
 *     Its `reason` tells apart whether the other side can have heard the request.
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
  /** The addresses of a name; the resolver of the system by default. */
  readonly resolve?: (host: string) => Promise<readonly Address[]>;
  readonly limits?: Partial<OutboundLimits>;
}

export interface OutboundLimits {
  readonly connectMs: number;
  /** For a whole answer; of a stream, for its head. */
  readonly timeoutMs: number;
  /** A stream on which nothing comes for this long is given up; its heartbeats count. */
  readonly idleMs: number;
  /** Of the body of an answer. A stream is not gathered, so it may be of any length. */
  readonly maxBytes: number;
  /** Of each target. Streams have their own, so that they never keep a cancel waiting. */
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

/** Idle connections that are kept for the next request. */
const MAX_FREE_SOCKETS = 8;

export interface OutboundRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Below the URL of the target; may have a query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  readonly maxBytes?: number;
}

export interface OutboundStreamRequest extends Omit<OutboundRequest, 'maxBytes'> {
  readonly idleMs?: number;
  /** Answers with a redirect as it is, instead of failing. */
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
  /** Hands on the body as it comes. Read it once, or close it: until then it holds a connection. */
  read(on: (piece: Buffer) => void): Promise<void>;
  /** Lets the sender wait until `resume`. */
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

  /** A new target each time: the only way to have a name resolved again. */
  to(url: string): Target {
    const target = new Target(parseBase(url), this.#options, () => this.#targets.delete(target));
    this.#targets.add(target);
    return target;
  }

  /** Ends all connections; what is under way fails. */
  close(): void {
    for (const target of [...this.#targets]) target.close();
  }
}

/** One server that we talk to. */
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

  /** The whole answer, whatever its status says. */
  async request(ask: OutboundRequest): Promise<OutboundReply> {
    const exchange = this.#exchange(ask, this.#calls);
    const { statusCode, headers } = await exchange.head();
    const body = await exchange.whole(ask.maxBytes ?? this.#limits.maxBytes);
    return { status: statusCode as number, headers, body };
  }

  /** The head of an answer, and its body as it comes: `eachEvent(reply, …)` for server-sent events. */
  async stream(ask: OutboundStreamRequest): Promise<StreamReply> {
    const exchange = this.#exchange(ask, this.#streams, ask.idleMs ?? this.#limits.idleMs);
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

  /** Ends its connections: what is under way fails, and nothing can be asked any more. */
  close(): void {
    this.#closed = true;
    for (const { agent, open } of [this.#calls, this.#streams]) {
      for (const exchange of [...open]) exchange.abort();
      agent.destroy();
    }
    this.#onClose();
  }

  /** Another one has taken its place: what is under way goes on, and no connection outlives it. */
  retire(): void {
    this.#retired = true;
    for (const { agent } of [this.#calls, this.#streams]) {
      agent.maxFreeSockets = 0;
      for (const sockets of Object.values(agent.freeSockets))
        for (const socket of sockets ?? []) socket.destroy();
    }
    this.#leaveWhenIdle();
  }

  #leaveWhenIdle(): void {
    if (this.#retired && this.#calls.open.size + this.#streams.open.size === 0) this.#onClose();
  }

  #exchange(ask: OutboundRequest | OutboundStreamRequest, through: Connections, idleMs?: number): Exchange {
    const { connectMs, timeoutMs } = this.#limits;
    const method = ask.method ?? 'GET';
    const to = `${method} ${this.origin}`;
    if (this.#closed) throw outboundError('busy', to, 'this target was closed');
    if (through.open.size >= through.max)
      throw outboundError('busy', to, `all ${through.max} connections are in use`);
    const exchange = new Exchange({
      ready: () => this.#resolve(to),
      send: (connection) => this.#send(ask, method, to, connection === 'any' ? through.agent : false),
      body: ask.body,
      to,
      repeatable: method === 'GET',
      timers: this.#options.timers,
      connectMs,
      timeoutMs: ask.timeoutMs ?? timeoutMs,
      idleMs,
      signal: ask.signal,
      returnsRedirects: 'returnsRedirects' in ask && ask.returnsRedirects,
      onEnd: (ended) => {
        through.open.delete(ended);
        this.#leaveWhenIdle();
      },
    });
    through.open.add(exchange);
    return exchange;
  }

  #send(
    ask: OutboundRequest | OutboundStreamRequest,
    method: string,
    to: string,
    agent: http.Agent | false,
  ): ClientRequest {
    const { protocol, port, pathname } = this.#base;
    const path = pathname.replace(/\/$/, '') + ask.path;
    const lookup = pinned(this.#addresses ?? []);
    const options = { agent, method, host: this.#host, port, path, headers: ask.headers, lookup };
    try {
      return protocol === 'https:' ? https.request(options) : http.request(options);
    } catch {
      // What the platform says of it would quote it.
      throw new OrchdError(
        'INVALID_PARAMS',
        `${to}: a header or the path has characters that cannot be sent`,
      );
    }
  }

  /** A name that could not be resolved may be asked for again; one that was is never (O1). */
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

const systemResolve = (host: string): Promise<readonly Address[]> => dns.lookup(host, { all: true });

/** Answers with the addresses that are known, whatever the name means by now. */
const pinned =
  (addresses: readonly Address[]): LookupFunction =>
  (_host, options, done) => {
    const first = addresses[0] as Address;
    if (options.all) done(null, [...addresses]);
    else done(null, first.address, first.family);
  };

function parseBase(text: string): URL {
  const refused = (what: string): OrchdError => new OrchdError('CONFIG_INVALID', `a URL to call ${what}`);
  // Its own error would quote the text, with a password that may be in it.
  if (!URL.canParse(text)) throw refused('is not one');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused('must begin with http or https');
  if (url.username !== '' || url.password !== '') throw refused('may not hold a name or a password');
  if (url.search !== '' || url.hash !== '') throw refused('may not hold a query or a fragment');
  return url;
}
