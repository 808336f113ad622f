/**
 * An OpenAI-compatible server that says what a test tells it, when it is told: each answer goes by the prompt that
 * asked for it. Real workers in front of it are as slow, and as sudden, as the test wants them to be.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

export class ToldUpstream {
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  /** Everything that was asked with a prompt, in order. */
  readonly #asked = new Map<string, ServerResponse[]>();
  readonly #waiting = new Set<() => void>();

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Number of requests with this prompt. */
  asked(prompt: string): number {
    return this.#asked.get(prompt)?.length ?? 0;
  }

  /** True when the last client with this prompt disconnected before the end. */
  isLeft(prompt: string): boolean {
    const last = this.#asked.get(prompt)?.at(-1);
    return last?.destroyed === true && !last.writableFinished;
  }

  /** Waits until it has been asked. */
  async say(prompt: string, ...words: readonly string[]): Promise<void> {
    const response = await this.#of(prompt);
    for (const word of words) response.write(data({ choices: [{ index: 0, text: word }] }));
  }

  async end(prompt: string): Promise<void> {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const finish = data({ choices: [{ index: 0, text: '', finish_reason: 'stop' }] });
    (await this.#of(prompt)).end(`${finish}${data({ choices: [], usage })}data: [DONE]\n\n`);
  }

  async #of(prompt: string): Promise<ServerResponse> {
    for (;;) {
      const response = this.#asked.get(prompt)?.at(-1);
      if (response) return response;
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    if (request.url !== '/v1/completions') {
      response.end(JSON.stringify({ data: [{ id: 'told', max_model_len: 4096 }] }));
      return;
    }
    const { prompt } = JSON.parse(body) as { prompt: string };
    this.#asked.set(prompt, [...(this.#asked.get(prompt) ?? []), response]);
    response.on('error', () => undefined);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }
}
