/**
 * An executor that outlives every node. Its executions are only tokens and never end, so they cost nothing, but a new
 * leader has to find and follow each of them again.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { now } from '../kit/numbers.ts';
import { type ExecutorCommand, type ExecutorRequest, onLines, REGISTRY, send } from './executor-protocol.ts';

export class Executor {
  readonly #tokens = new Set<string>();
  readonly #since = Date.now();
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #epoch = 0;
  /** The tokens that the leader of #epoch follows. */
  #followed = new Set<string>();
  #onFollow: (() => void) | undefined;

  constructor() {
    this.#server = createServer((socket) => this.#serve(socket));
  }

  /** The highest epoch seen in a command; it is the brain's epoch, not that of the election. */
  get epoch(): number {
    return this.#epoch;
  }

  /** The number of executions ever started. */
  get begun(): number {
    return this.#tokens.size;
  }

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.listen(path, resolve);
    });
  }

  /** Resolves to the time at which a leader with an epoch above `after` follows `count` executions. */
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
    // An error here means that the node was killed.
    socket.on('error', () => undefined);
    socket.on('close', () => this.#sockets.delete(socket));
    onLines<ExecutorRequest>(socket, ({ id, command }) => {
      const answer = this.#answer(command);
      if (answer !== undefined) send(socket, { id, answer });
    });
  }

  #answer(command: ExecutorCommand): unknown {
    this.#noteEpoch(command.epoch);
    if (command.is === 'offer') return this.#offer(command.token, command.epoch);
    if (command.is === 'inspect') return this.#inspect(command.tokens);
    // A follow gets no reply, since the execution never ends.
    if (command.epoch === this.#epoch) this.#followed.add(command.token);
    this.#onFollow?.();
    return undefined;
  }

  #noteEpoch(epoch: number): void {
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
