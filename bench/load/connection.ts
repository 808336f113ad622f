/** A keep-alive HTTP connection for one request at a time; it parses only the length of the response, to cost little. */
import { connect, type Socket } from 'node:net';

const HEAD_END = Buffer.from('\r\n\r\n');
const LENGTH = /content-length: (\d+)/i;

export class Connection {
  readonly #socket: Socket;
  #pieces: Buffer[] = [];
  #bytes = 0;
  /** The size of the whole response, once its head has arrived. */
  #totalBytes: number | undefined;
  #done: ((answer: Buffer) => void) | undefined;
  #fail: ((error: Error) => void) | undefined;

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(new Connection(socket)));
      socket.once('error', reject);
    });
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (piece) => this.#take(piece as Buffer));
    socket.on('error', (error) => this.#fail?.(error));
    socket.on('close', () => this.#fail?.(new Error('the server closed the connection')));
  }

  request(request: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#done = resolve;
      this.#fail = reject;
      this.#socket.write(request);
    });
  }

  #take(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    this.#totalBytes ??= totalBytesOf(this.#pieces.length === 1 ? piece : Buffer.concat(this.#pieces));
    if (this.#totalBytes === undefined || this.#bytes < this.#totalBytes) return;
    const answer = this.#pieces.length === 1 ? piece : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    this.#totalBytes = undefined;
    this.#done?.(answer);
  }
}

function totalBytesOf(start: Buffer): number | undefined {
  const headEnd = start.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const length = LENGTH.exec(start.toString('latin1', 0, headEnd))?.[1];
  if (length === undefined) throw new Error('an answer has no length');
  return headEnd + HEAD_END.length + Number(length);
}
