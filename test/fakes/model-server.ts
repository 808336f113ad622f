/**
 * A server with an OpenAI-compatible API as people run it: its models change, it restarts, it has ways of its own to
 * tell context lengths, and it may answer anything else. Every call is written down, with its prompt.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface ServedCall {
  readonly model: string;
  readonly prompt: string;
  readonly key: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what came
  readonly body: any;
  readonly response: ServerResponse;
}

/** What a path answers, instead of what this server would. */
type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const piece = (content: string): string => data({ choices: [{ index: 0, delta: { content } }] });

export const json =
  (value: unknown): Answer =>
  (_, response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));

export class ModelServer {
  /** All calls for answers, in order. */
  readonly calls: ServedCall[] = [];
  /** Every request, as method and path with its authorization. */
  readonly asked: { readonly what: string; readonly key: string | undefined }[] = [];
  /** Its models: names, or entries of the list as it would give them. */
  models: readonly (string | Record<string, unknown>)[];
  /** Models that are listed, and answered with 404. */
  lies: readonly string[] = [];
  /** Called with the headers of each call for an answer. */
  heardHeaders: (headers: IncomingMessage['headers']) => void = () => undefined;
  readonly paths = new Map<string, Answer>();
  /** While set, answers stop after their first word. */
  isHolding = false;
  #server: Server | undefined;
  #port = 0;
  readonly #waiting = new Set<() => void>();

  constructor(models: ModelServer['models']) {
    this.models = models;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Listens; again at the same port after a `kill`. */
  async start(): Promise<this> {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  /** Ends at once, with every connection. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }

  /** Lets held answers go on. */
  release(): void {
    this.isHolding = false;
    for (const { response, prompt } of this.calls) if (!response.writableEnded) finish(response, prompt);
  }

  /** Waits until a number of calls has come. */
  async called(count: number): Promise<void> {
    while (this.calls.length < count) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  /** How often it was called with each prompt. */
  get counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { prompt } of this.calls) counts.set(prompt, (counts.get(prompt) ?? 0) + 1);
    return counts;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    const body = await text(request).catch(() => '');
    const path = request.url ?? '';
    this.asked.push({ what: `${request.method} ${path}`, key: request.headers.authorization });
    const other = this.paths.get(path);
    if (other) return other(request, response, body);
    if (path === '/v1/models') return this.#list(request, response, body);
    if (request.method !== 'POST' || !path.startsWith('/v1/'))
      return void response.writeHead(404).end('no such page');
    this.#complete(request, response, JSON.parse(body));
  }

  #list(...[request, response, body]: Parameters<Answer>): void {
    const entries = this.models.map((model) => (typeof model === 'string' ? { id: model } : model));
    json({ object: 'list', data: entries })(request, response, body);
  }

  // biome-ignore lint/suspicious/noExplicitAny: a request of anybody
  #complete(request: IncomingMessage, response: ServerResponse, body: any): void {
    const content = body.prompt ?? body.messages?.at(-1)?.content ?? '';
    const prompt = typeof content === 'string' ? content : JSON.stringify(content);
    const { model } = body;
    this.calls.push({ model, prompt, key: request.headers.authorization, body, response });
    this.heardHeaders(request.headers);
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
    const isListed = this.models.some((each) => (typeof each === 'string' ? each : each['id']) === model);
    if (!isListed || this.lies.includes(model)) {
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: `model '${model}' not found`, code: 'not_found' } }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(piece('You '));
    if (!this.isHolding) finish(response, prompt);
  }
}

function finish(response: ServerResponse, prompt: string): void {
  response.write(piece('said: '));
  response.write(piece(prompt));
  const usage = { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 };
  response.write(data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }));
  response.end(`${data({ choices: [], usage })}data: [DONE]\n\n`);
}
