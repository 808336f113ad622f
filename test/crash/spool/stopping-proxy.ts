/** Stands between an agent and a brain, and stops at a chosen request: before it is passed on, or before its answer is. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { TestContext } from 'node:test';

export interface Stop {
  readonly method: string;
  readonly path: RegExp;
  readonly side: 'asked' | 'answered';
  /** Called once; the request, or its answer, is lost. */
  readonly hit: () => Promise<void>;
}

export class StoppingProxy {
  /** The address of the brain. */
  target = '';
  #stop: Stop | undefined;
  readonly #server = createServer((incoming, outgoing) => {
    this.#pass(incoming, outgoing).catch(() => outgoing.destroy());
  });

  static async make(t: TestContext): Promise<StoppingProxy> {
    const proxy = new StoppingProxy();
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    t.after(() => {
      proxy.#server.close();
      proxy.#server.closeAllConnections();
    });
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stopAt(stop: Stop): void {
    this.#stop = stop;
  }

  async #pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await buffer(incoming);
    if (await this.#isStopped(incoming, 'asked')) return void outgoing.destroy();
    const { method, headers, url = '' } = incoming;
    const way = request(new URL(url, this.target), { method, headers });
    outgoing.on('close', () => way.destroy());
    way.end(body);
    const [answer] = (await once(way, 'response')) as [IncomingMessage];
    // Whole: the end of a job is in the last piece of its stream.
    const content = await buffer(answer);
    if (await this.#isStopped(incoming, 'answered')) return void outgoing.destroy();
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers).end(content);
  }

  async #isStopped({ method, url = '' }: IncomingMessage, side: Stop['side']): Promise<boolean> {
    const stop = this.#stop;
    if (!stop || stop.side !== side || stop.method !== method || !stop.path.test(url)) return false;
    this.#stop = undefined;
    await stop.hit();
    return true;
  }
}
