/** The protocol between a node and the executor of the bench: JSON lines on one socket. */
import type { Socket } from 'node:net';

export type ExecutorCommand =
  | { readonly is: 'offer'; readonly token: string; readonly epoch: number }
  | { readonly is: 'inspect'; readonly tokens: readonly string[]; readonly epoch: number }
  | { readonly is: 'follow'; readonly token: string; readonly epoch: number };

export interface ExecutorRequest {
  readonly id: number;
  readonly command: ExecutorCommand;
}

export interface ExecutorReply {
  readonly id: number;
  readonly answer: unknown;
}

/** The registry id of the executor, which never changes: it forgets nothing while the bench runs. */
export const REGISTRY = 'bench';

export function send(socket: Socket, message: ExecutorRequest | ExecutorReply): void {
  socket.write(`${JSON.stringify(message)}\n`);
}

export function onLines<T>(socket: Socket, onMessage: (message: T) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) onMessage(JSON.parse(line) as T);
  });
}
