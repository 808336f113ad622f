/**
 * A provider whose seats keep threads: it writes down what every thread has heard, answers after a while, and finds a call
 * again by its tag. It lives in the process of the test, and goes on with calls whose gateway has died. On purpose it
 * loses threads, and breaks off calls that it has heard and denies later.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { SeatOrder } from '../../src/model/gateway-wire.ts';
import { seatOrder } from './fake-driver.ts';

export interface SaidMessage {
  readonly role: string;
  readonly content: string;
}

/** What a driver sends. */
export interface ThreadRequest {
  readonly tag: string;
  readonly seat: string;
  /** Undefined: in a new thread. */
  readonly thread?: string | undefined;
  readonly messages: readonly SaidMessage[];
}

export interface ThreadAnswer {
  readonly thread: string;
  readonly text: string;
}

interface Thread {
  readonly seat: string;
  /** Everything that was said in it, its own answers included. */
  readonly heard: SaidMessage[];
}

export class ThreadProvider {
  /** Also those that were forgotten. */
  readonly threads = new Map<string, Thread>();
  /** The requests that were heard. */
  readonly requests: ThreadRequest[] = [];
  /** Questions that are heard, broken off and not found again. */
  readonly doubtful = new Set<string>();
  readonly #forgotten = new Set<string>();
  /** Tags that were asked for in vain: a call that comes later is not heard. */
  readonly #denied = new Set<string>();
  readonly #answers = new Map<string, Promise<ThreadAnswer>>();
  readonly #server: Server;
  readonly #waiters = new Set<() => void>();
  readonly #meanMs: number;

  constructor(meanMs = 20) {
    this.#meanMs = meanMs;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  seat(name: string): SeatOrder {
    const { port } = this.#server.address() as AddressInfo;
    return seatOrder(name, { url: `http://127.0.0.1:${port}/threads` });
  }

  /** The provider starts anew: it knows no thread any more. */
  forgetThreads(): void {
    for (const id of this.threads.keys()) this.#forgotten.add(id);
  }

  async requested(count: number): Promise<void> {
    while (this.requests.length < count)
      await new Promise<void>((resolve) => this.#waiters.add(() => resolve()));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      const tag = new URL(request.url ?? '/', 'http://provider').searchParams.get('tag') ?? '';
      const answer = await this.#answers.get(tag);
      if (!answer) this.#denied.add(tag);
      response.writeHead(answer ? 200 : 404).end(JSON.stringify(answer));
      return;
    }
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const asked = JSON.parse(Buffer.concat(pieces).toString()) as ThreadRequest;
    const known = asked.thread === undefined ? undefined : this.threads.get(asked.thread);
    const isLost = asked.thread !== undefined && (!known || this.#forgotten.has(asked.thread));
    if (isLost || this.#denied.has(asked.tag) || (known && known.seat !== asked.seat)) {
      response.writeHead(404).end();
      return;
    }
    const id = asked.thread ?? `https://chat.example/${asked.seat}/${this.threads.size + 1}`;
    const thread = known ?? { seat: asked.seat, heard: [] };
    this.threads.set(id, thread);
    thread.heard.push(...asked.messages);
    this.requests.push(asked);
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
    if (this.doubtful.delete(asked.messages.at(-1)?.content ?? '')) {
      request.socket.destroy();
      return;
    }
    const answer = this.#answer(id, thread);
    this.#answers.set(asked.tag, answer);
    response.end(JSON.stringify(await answer));
  }

  async #answer(id: string, { heard }: Thread): Promise<ThreadAnswer> {
    const tookMs = this.#meanMs * (0.5 + Math.random());
    await new Promise((resolve) => setTimeout(resolve, tookMs));
    const text = `answer ${heard.length} in ${id}`;
    heard.push({ role: 'assistant', content: text });
    return { thread: id, text };
  }
}
