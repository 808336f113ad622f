/**
 * A provider for gateways in processes of their own: it counts every call as a bill, holds the answer until the test
 * releases it, and finds a call again by its id or its tag. It lives in the process of the test.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Bill {
  readonly id: string;
  readonly tag: string;
  readonly prompt: string;
}

export class TagProvider {
  readonly bills: Bill[] = [];
  /** All prompts are answered at once. */
  answersAtOnce = false;
  /** Prompts whose calls are billed and fail for good. */
  readonly failing = new Set<string>();
  /** Most calls that ran at a time. */
  peak = 0;
  readonly #server: Server;
  readonly #released = new Map<string, PromiseWithResolvers<void>>();
  readonly #waiters = new Set<() => void>();
  #running = 0;

  constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The answer to a prompt is given. */
  release(prompt: string): void {
    this.#holdOf(prompt).resolve();
  }

  async billed(count: number): Promise<void> {
    while (this.bills.length < count) {
      await new Promise<void>((resolve) => this.#waiters.add(resolve));
    }
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #holdOf(prompt: string): PromiseWithResolvers<void> {
    const hold = this.#released.get(prompt) ?? Promise.withResolvers<void>();
    this.#released.set(prompt, hold);
    return hold;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://provider');
    if (request.method === 'GET') {
      const bill = this.bills.find(
        ({ id, tag }) => id === url.searchParams.get('id') || tag === url.searchParams.get('tag'),
      );
      if (!bill) {
        response.writeHead(404).end();
        return;
      }
      if (!this.answersAtOnce) await this.#holdOf(bill.prompt).promise;
      response.end(JSON.stringify({ text: `answer to ${bill.prompt}` }));
      return;
    }
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const { tag, prompt } = JSON.parse(Buffer.concat(pieces).toString());
    const id = `call-${this.bills.length + 1}`;
    this.bills.push({ id, tag, prompt });
    this.#running++;
    this.peak = Math.max(this.peak, this.#running);
    for (const wake of [...this.#waiters]) wake();
    this.#waiters.clear();
    if (this.failing.has(prompt)) {
      this.#running--;
      response.writeHead(400).end();
      return;
    }
    response.writeHead(200);
    response.write(`${JSON.stringify({ id })}\n${JSON.stringify({ piece: 'begun ' })}\n`);
    if (!this.answersAtOnce) await this.#holdOf(prompt).promise;
    this.#running--;
    response.end(`${JSON.stringify({ text: `answer to ${prompt}` })}\n`);
  }
}
