/** The node's side of the bench's executor: a backend on one socket, opened when the node begins to lead. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type {
  Backend,
  BackendInfo,
  ExecutionEvent,
  FollowEnd,
  Inspection,
  KillReply,
  Offer,
  OfferReply,
} from '../../src/core/ports/backend.ts';
import type { Commander } from '../../src/model/worker-wire.ts';
import { type ExecutorCommand, type ExecutorReply, onLines, REGISTRY, send } from './executor-protocol.ts';

export class ExecutorBackend implements Backend {
  readonly info: BackendInfo;
  readonly #path: string;
  readonly #waiting = new Map<number, (answer: never) => void>();
  #socket: Socket | undefined;
  #lastId = 0;

  constructor(path: string, slots: number) {
    this.#path = path;
    this.info = {
      name: 'executor',
      kind: 'executor',
      slots,
      types: ['work'],
      models: undefined,
      labels: {},
      paid: false,
      keepsResults: true,
      registry: REGISTRY,
    };
  }

  async start(): Promise<void> {
    const socket = connect(this.#path);
    await once(socket, 'connect');
    onLines<ExecutorReply>(socket, ({ id, answer }) => {
      this.#waiting.get(id)?.(answer as never);
      this.#waiting.delete(id);
    });
    this.#socket = socket;
  }

  async stop(): Promise<void> {
    this.#socket?.destroy();
  }

  offer({ token, epoch }: Offer): Promise<OfferReply> {
    return this.#request({ is: 'offer', token, epoch });
  }

  async inspect(tokens: readonly string[], { epoch }: Commander): Promise<Inspection> {
    const { running, ...memory } = await this.#request<Omit<Inspection, 'known'> & { running: string[] }>({
      is: 'inspect',
      tokens,
      epoch,
    });
    return { ...memory, known: new Map(running.map((token) => [token, { is: 'running' }])) };
  }

  follow(
    token: string,
    _from: number,
    _on: (event: ExecutionEvent) => void,
    { epoch }: Commander,
  ): Promise<FollowEnd> {
    return this.#request({ is: 'follow', token, epoch });
  }

  /** Never called: this bench cancels no job. */
  kill(): Promise<KillReply> {
    return Promise.reject(new Error('nothing is killed here'));
  }

  async ack(): Promise<void> {}

  #request<T>(command: ExecutorCommand): Promise<T> {
    const socket = this.#socket;
    if (!socket) return Promise.reject(new Error('not connected'));
    return new Promise((resolve) => {
      const id = ++this.#lastId;
      this.#waiting.set(id, resolve);
      send(socket, { id, command });
    });
  }
}
