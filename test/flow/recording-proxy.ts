/** Stands in front of a real server and notes what is asked of it, and over how many connections. */
import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Ends } from './server-process.ts';

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what was asked
  readonly body: any;
}

export class RecordingProxy {
  readonly asked: Asked[] = [];
  connections = 0;
  readonly #target: URL;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #server = createServer((incoming, outgoing) => void this.#pass(incoming, outgoing));
  /** Changes a JSON answer on its way back. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer of whatever form
  change: ((answer: any) => Promise<unknown>) | undefined;

  private constructor(target: string) {
    this.#target = new URL(target);
  }

  static async before(t: Ends, target: string): Promise<RecordingProxy> {
    const proxy = new RecordingProxy(target);
    proxy.#server.on('connection', () => proxy.connections++);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    t.after(() => {
      proxy.#server.closeAllConnections();
      proxy.#server.close();
      proxy.#agent.destroy();
    });
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Recorded requests with this method and a path that matches. */
  of(method: string, path: RegExp): Asked[] {
    return this.asked.filter((each) => each.method === method && path.test(each.path));
  }

  async #pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = incoming;
    const { hostname, port } = this.#target;
    try {
      const body = await text(incoming);
      this.asked.push({ method, path: url, headers, body: body === '' ? undefined : JSON.parse(body) });
      const way = request({ agent: this.#agent, hostname, port, method, path: url, headers });
      outgoing.on('close', () => way.destroy());
      way.end(body);
      const [answer] = (await once(way, 'response')) as [IncomingMessage];
      if (!this.change || !answer.headers['content-type']?.includes('json')) {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.on('error', () => outgoing.destroy()).pipe(outgoing);
        return;
      }
      const changed = JSON.stringify(await this.change(JSON.parse(await text(answer))));
      const { 'content-length': _, ...rest } = answer.headers;
      outgoing.writeHead(answer.statusCode ?? 502, rest).end(changed);
    } catch {
      outgoing.destroy();
    }
  }
}

/**
 * In front of a pool manager, and of every worker that it shows: the addresses in its answers are those of the
 * proxies, so whoever uses them comes through here.
 */
export class WatchedPool {
  readonly #t: Ends;
  readonly manager: RecordingProxy;
  /** By the address that the worker has itself. */
  readonly #workers = new Map<string, Promise<RecordingProxy>>();
  /** The workers of every state that was told, in order, beside what was asked. */
  readonly shown: { readonly after: number; readonly workers: readonly string[] }[] = [];

  private constructor(t: Ends, manager: RecordingProxy) {
    this.#t = t;
    this.manager = manager;
  }

  static async before(t: Ends, url: string): Promise<WatchedPool> {
    const watched = new WatchedPool(t, await RecordingProxy.before(t, url));
    watched.manager.change = (answer) => watched.#rewrite(answer);
    return watched;
  }

  get url(): string {
    return this.manager.url;
  }

  /** The proxy in front of the worker at this address. */
  worker(uri: string): Promise<RecordingProxy> {
    let proxy = this.#workers.get(uri);
    if (!proxy) {
      proxy = RecordingProxy.before(this.#t, uri);
      this.#workers.set(uri, proxy);
    }
    return proxy;
  }

  async #rewrite(answer: { workers?: { id: string; uri?: string }[] }): Promise<unknown> {
    if (!answer.workers) return answer;
    this.shown.push({ after: this.manager.asked.length, workers: answer.workers.map(({ id }) => id) });
    const workers = answer.workers.map(async (worker) =>
      worker.uri === undefined ? worker : { ...worker, uri: (await this.worker(worker.uri)).url },
    );
    return { ...answer, workers: await Promise.all(workers) };
  }
}
