/**
 * An executor that outlives every node: it keeps executions by their tokens, and none of them ends. So it costs
 * no process each, and yet a new leader has to find every one of them again.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { now } from '../kit/numbers.ts';
import { type Asked, type Order, onLines, REGISTRY, send } from './executor-lines.ts';

export class Executor {
  readonly #tokens = new Set<string>();
  readonly #since = Date.now();
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #epoch = 0;
  /** By the leader of that epoch. */
  #followed = new Set<string>();
  #onFollow: (() => void) | undefined;

  constructor() {
    this.#server = createServer((socket) => this.#serve(socket));
  }

  /** The highest one that has commanded here: the brain's, which is not that of the election. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Executions that were ever begun. */
  get begun(): number {
    return this.#tokens.size;
  }

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.listen(path, resolve);
    });
  }

  /** The moment at which a leader later than that epoch follows so many executions. */
  followedBy(after: number, count: number): Promise<number> {
    return new Promise((resolve) => {
      this.#onFollow = () => {
        if (this.#epoch > after && this.#followed.size >= count) resolve(now());
      };
      this.#onFollow();
    });
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    // Its node was killed.
    socket.on('error', () => undefined);
    socket.on('close', () => this.#sockets.delete(socket));
    onLines<Asked>(socket, ({ id, order }) => {
      const answer = this.#answer(order);
      if (answer !== undefined) send(socket, { id, answer });
    });
  }

  #answer(order: Order): unknown {
    this.#command(order.epoch);
    if (order.is === 'offer') return this.#offer(order.token, order.epoch);
    if (order.is === 'inspect') return this.#inspect(order.tokens);
    // There is no more to say: it runs on.
    if (order.epoch === this.#epoch) this.#followed.add(order.token);
    this.#onFollow?.();
    return undefined;
  }

  #command(epoch: number): void {
    if (epoch <= this.#epoch) return;
    this.#epoch = epoch;
    this.#followed = new Set();
  }

  #offer(token: string, epoch: number): unknown {
    if (epoch < this.#epoch) return { is: 'fenced' };
    this.#tokens.add(token);
    return { is: 'accepted' };
  }

  #inspect(tokens: readonly string[]): unknown {
    const known = tokens.filter((token) => this.#tokens.has(token));
    return { registry: REGISTRY, rememberedSince: this.#since, running: known };
  }
}
