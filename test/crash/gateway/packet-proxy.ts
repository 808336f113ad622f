/** Stands between two processes, and can swallow everything that they send, as a broken network does. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export class PacketProxy {
  /** Where new connections lead. */
  targetPort = 0;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => this.#connected(socket));
  #isCut = false;

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** From now on nothing arrives, and no connection is closed. */
  cut(): void {
    this.#isCut = true;
  }

  /** New connections work again; those of before the cut are reset. */
  heal(): void {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #connected(near: Socket): void {
    this.#watch(near);
    if (this.#isCut) return;
    const far = connect(this.targetPort, '127.0.0.1');
    this.#watch(far);
    this.#pipe(near, far);
    this.#pipe(far, near);
  }

  #pipe(from: Socket, to: Socket): void {
    from.on('data', (piece) => this.#isCut || to.write(piece));
    from.on('end', () => this.#isCut || to.end());
    from.on('close', () => this.#isCut || to.destroy());
  }

  #watch(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket));
  }
}
