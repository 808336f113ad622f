/**
 * What the fake providers share: a real HTTP server on loopback that checks keys, bills what it accepts, and is steered
 * by its `stage` or, from other processes, by `/_control`:
 *
 *   POST /_control/fault    {name, headers?, location?}   for the next generation
 *   POST /_control/hold     {point}
 *   POST /_control/release  {point}
 *   POST /_control/key      {key}                         the only key that is accepted from now on
 *   POST /_control/expire   {id}
 *   POST /_control/reads    {status, count}               answers to the next reads
 *   GET  /_control/state    {waiting, requests, bills}
 */
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { BillLedger } from './ledger.ts';
import { billedTokens, promptOf } from './script.ts';
import { type Fault, Stage } from './stage.ts';

// biome-ignore lint/suspicious/noExplicitAny: requests and answers of any form
export type Json = any;

export interface Asked {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly body: Json;
  readonly key: string | undefined;
}

export interface Exchange {
  readonly method: string;
  readonly url: URL;
  readonly body: Json;
  readonly key: string | undefined;
  readonly response: ServerResponse;
}

const LOGIN_PAGE = '<!doctype html><html><title>Sign in</title><body>Please sign in.</body></html>';

export abstract class FakeProvider {
  readonly stage = new Stage();
  /** Every request but those to `/_control`, in order. */
  readonly asked: Asked[] = [];
  readonly ledger: BillLedger;
  /** The only key that is accepted; any, while it is undefined. */
  key: string | undefined;
  readonly #server: Server = createServer((request, response) => void this.#answer(request, response));
  #ids = 0;

  constructor(ledgerFile: string) {
    this.ledger = new BillLedger(ledgerFile);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async start(port = 0): Promise<this> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  /** Requests that begin a generation, however they ended. */
  get generations(): Asked[] {
    return this.asked.filter(({ method, path }) => method === 'POST' && this.#isGeneration(path));
  }

  protected abstract readonly generationPaths: readonly (string | RegExp)[];
  protected abstract keyOf(request: IncomingMessage): string | undefined;
  protected abstract errorBody(type: string, message: string): Json;
  /** The tokens of a prompt that it writes to a cache. */
  protected readonly writtenTokens: number = 0;
  /** The status of the provider's own overload. */
  protected abstract readonly overloadedStatus: number;
  protected abstract tagOf(body: Json): string | null;
  protected abstract idPrefix(path: string): string;
  /** What is wrong with a request that begins a generation; undefined if nothing is. */
  protected invalid(_body: Json, _headers: IncomingHttpHeaders): string | undefined {
    return undefined;
  }

  /** Runs a generation that was billed. */
  protected abstract generate(exchange: Exchange, id: string, fault: Fault | undefined): Promise<void>;
  /** Answers everything else; false if there is no such path. */
  protected abstract read(exchange: Exchange): boolean;

  protected nextId(prefix: string): string {
    return `${prefix}${process.pid}_${++this.#ids}`;
  }

  protected refuse(
    response: ServerResponse,
    status: number,
    type: string,
    message: string,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    send(response, status, this.errorBody(type, message), headers);
  }

  protected refuseKey(response: ServerResponse, key: string | undefined): void {
    this.refuse(response, 401, 'authentication_error', `Incorrect API key provided: ${key}`);
  }

  /** Whether a request to this path, with or without its query, begins a generation. */
  #isGeneration(path: string): boolean {
    const [name = ''] = path.split('?');
    return this.generationPaths.some((each) => (typeof each === 'string' ? each === name : each.test(name)));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    const content = await text(request).catch(() => '');
    const url = new URL(request.url ?? '/', this.url);
    const method = request.method ?? 'GET';
    const body: Json = content === '' ? {} : JSON.parse(content);
    if (url.pathname.startsWith('/_control/'))
      return this.#control(method, url.pathname.slice(10), body, response);
    const key = this.keyOf(request);
    this.asked.push({ method, path: url.pathname + url.search, body, key });
    if (this.key !== undefined && key !== this.key) return this.refuseKey(response, key);
    const exchange = { method, url, body, key, response };
    if (method === 'POST' && this.#isGeneration(url.pathname)) {
      const wrong = this.invalid(body, request.headers);
      if (wrong !== undefined) return this.refuse(response, 400, 'invalid_request_error', wrong);
      return this.#accept(exchange);
    }
    const status = method === 'GET' ? this.stage.readFaults.shift() : undefined;
    if (status === 200) return void response.writeHead(200, { 'content-type': 'text/html' }).end(LOGIN_PAGE);
    if (status !== undefined) return this.refuse(response, status, 'api_error', 'not now');
    if (!this.read(exchange)) this.refuse(response, 404, 'not_found_error', 'there is no such thing');
  }

  async #accept(exchange: Exchange): Promise<void> {
    const { url, body, response } = exchange;
    const fault = this.stage.faults.shift();
    if (fault && this.#turnsAway(exchange, fault)) return;
    const id = this.nextId(this.idPrefix(url.pathname));
    const tokens = billedTokens(body, this.writtenTokens);
    this.ledger.add({ tag: this.tagOf(body), id, path: url.pathname, prompt: promptOf(body), tokens });
    await this.stage.at('received');
    if (fault?.name === 'hang') return;
    if (fault?.name === 'drop') return void response.destroy();
    if (fault?.name === 'bad_gateway')
      return void response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>502 Bad Gateway</h1>');
    await this.generate(exchange, id, fault);
  }

  /** Answers the faults that accept nothing; false for all others. */
  #turnsAway({ response, key }: Exchange, { name, headers = {}, location = '' }: Fault): boolean {
    const refuse = (status: number, type: string, message: string): true => {
      this.refuse(response, status, type, message, headers);
      return true;
    };
    switch (name) {
      case 'rate_limited':
        return refuse(429, 'rate_limit_error', 'Slow down.');
      case 'quota':
        return refuse(429, 'insufficient_quota', 'You exceeded your current quota.');
      case 'no_credit':
        return refuse(400, 'invalid_request_error', 'Your credit balance is too low to access the API.');
      case 'overloaded':
        return refuse(this.overloadedStatus, 'overloaded_error', 'Overloaded');
      case 'server_error':
        return refuse(500, 'api_error', 'Internal server error');
      case 'bad_request':
        return refuse(400, 'invalid_request_error', 'messages: something is odd');
      case 'too_long':
        return refuse(400, 'invalid_request_error', 'prompt is too long: 9 tokens > 8 maximum');
      case 'not_found':
        return refuse(404, 'not_found_error', 'model: no-such-model');
      case 'quotes_key':
        return refuse(400, 'invalid_request_error', `the header was ${key}`);
      case 'proxy_503':
        response.writeHead(503, { 'content-type': 'text/plain' }).end('upstream connect error');
        return true;
      case 'html':
        response.writeHead(200, { 'content-type': 'text/html' }).end(LOGIN_PAGE);
        return true;
      case 'redirect':
        response.writeHead(307, { location }).end();
        return true;
      default:
        return false;
    }
  }

  #control(method: string, what: string, body: Json, response: ServerResponse): void {
    const { stage } = this;
    const orders: Record<string, () => void> = {
      fault: () => stage.faults.push(body),
      hold: () => stage.hold(body.point),
      release: () => stage.release(body.point),
      expire: () => stage.expired.add(body.id),
      reads: () => stage.readFaults.push(...new Array<number>(body.count ?? 1).fill(body.status)),
      key: () => {
        this.key = body.key;
      },
    };
    if (method === 'POST' && orders[what]) orders[what]();
    else if (what !== 'state') return this.refuse(response, 404, 'not_found_error', what);
    const requests = this.asked.map(({ method, path }) => `${method} ${path}`);
    send(response, 200, { waiting: stage.waiting, requests, bills: this.ledger.bills.length });
  }
}

export function send(
  response: ServerResponse,
  status: number,
  body: Json,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
