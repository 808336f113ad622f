/** An MCP server over HTTP in this process, whose calls the tests control: of the protocol before 2026-07-28, with tasks. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';

/** A call that waits for its end. */
export interface HttpCall {
  readonly name: string;
  readonly args: Record<string, unknown>;
  /** Says something about its progress. */
  say(text: string): void;
  /** Ends it with this result. */
  end(result: object): void;
  /** Answers with a status instead. */
  refuse(status: number): void;
}

export interface TaskEntry {
  status: 'working' | 'completed' | 'cancelled';
  result?: object;
}

export class McpHttpServer {
  readonly tools: object[] = [];
  readonly tasks = new Map<string, TaskEntry>();
  /** Every request: its method, and the key that came with it. */
  readonly asked: { readonly method: string; readonly key: string | undefined }[] = [];
  onCall: (call: HttpCall) => void = ({ end }) => end({ content: [] });
  /** Answers the next requests with a redirect to this address. */
  redirect: string | undefined;
  #server: Server | undefined;
  #port = 0;
  #stream: ServerResponse | undefined;
  #unsent: string[] = [];

  get url(): string {
    return `http://127.0.0.1:${this.#port}/mcp`;
  }

  async start(): Promise<this> {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.redirect !== undefined) return void response.writeHead(307, { location: this.redirect }).end();
    if (request.method === 'GET') return this.#open(response);
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = JSON.parse(await textOf(request));
    this.asked.push({ method, key: request.headers.authorization });
    if (id === undefined) return void response.writeHead(202).end();
    const send = (body: object): void => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, ...body }));
    };
    if (method === 'tools/call' && !params.task) return this.#call(id, params, response);
    const result = this.#resultOf(method, params);
    send(result ? { result } : { error: { code: -32601, message: 'Method not found' } });
  }

  /** The stream of everything that is no answer of its own request. */
  #open(response: ServerResponse): void {
    this.#stream = response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    for (const text of this.#unsent.splice(0)) response.write(text);
  }

  #push(body: object): void {
    const text = `data: ${JSON.stringify({ jsonrpc: '2.0', ...body })}\n\n`;
    if (this.#stream?.writable) this.#stream.write(text);
    else this.#unsent.push(text);
  }

  #resultOf(method: string, params: { taskId: string; name: string }): object | undefined {
    const task = this.tasks.get(params?.taskId);
    switch (method) {
      case 'initialize':
        return {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
          serverInfo: { name: 'http', version: '1' },
        };
      case 'tools/list':
        return { tools: this.tools };
      case 'tools/call': {
        const taskId = `task-${this.tasks.size + 1}`;
        this.tasks.set(taskId, { status: 'working' });
        return {
          task: {
            taskId,
            status: 'working',
            createdAt: new Date().toISOString(),
            ttl: 1000,
            pollInterval: 50,
          },
        };
      }
      case 'tasks/get':
        return (
          task && { taskId: params.taskId, status: task.status, createdAt: '', ttl: 1000, pollInterval: 50 }
        );
      case 'tasks/result':
        return task?.result;
      case 'tasks/cancel':
        if (task) task.status = 'cancelled';
        return task && { taskId: params.taskId, status: 'cancelled', createdAt: '', ttl: 1000 };
      default:
        return undefined;
    }
  }

  #call(
    id: number,
    params: { name: string; arguments: Record<string, unknown>; _meta?: { progressToken?: unknown } },
    response: ServerResponse,
  ): void {
    const progressToken = params._meta?.progressToken;
    let progress = 0;
    this.onCall({
      name: params.name,
      args: params.arguments,
      say: (message) =>
        this.#push({
          method: 'notifications/progress',
          params: { progressToken, progress: ++progress, message },
        }),
      end: (result) => {
        // On the stream of what was said before, so that it comes after it.
        this.#push({ id, result });
        response.writeHead(202).end();
      },
      refuse: (status) => void response.writeHead(status).end(),
    });
  }
}
