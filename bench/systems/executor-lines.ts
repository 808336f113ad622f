/** What a node and the executor of the bench say to each other: a JSON text a line, on one socket. */
import type { Socket } from 'node:net';

export type Order =
  | { readonly is: 'offer'; readonly token: string; readonly epoch: number }
  | { readonly is: 'inspect'; readonly tokens: readonly string[]; readonly epoch: number }
  | { readonly is: 'follow'; readonly token: string; readonly epoch: number };

export interface Asked {
  readonly id: number;
  readonly order: Order;
}

export interface Answered {
  readonly id: number;
  readonly answer: unknown;
}

/** Its memory: it has one for as long as the bench runs. */
export const REGISTRY = 'bench';

export function send(socket: Socket, message: Asked | Answered): void {
  socket.write(`${JSON.stringify(message)}\n`);
}

export function onLines<T>(socket: Socket, hear: (message: T) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) hear(JSON.parse(line) as T);
  });
}
