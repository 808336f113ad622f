/** Clients of streams, in a process of their own: they measure the time from the request to the first token. */
import { connect, type Socket } from 'node:net';
import type { Values } from '../kit/bench.ts';
import { Meter } from '../kit/meter.ts';
import { now, quantile, sleep } from '../kit/numbers.ts';
import { newToken, PROTOCOLS, type ProtocolName, type StreamProtocol } from './protocols.ts';

/** The clients start spread over this time, so that their streams do not start together. */
const SPREAD_MS = 1000;
/** The beginning of the first token's text, which is its number. */
const FIRST_TEXT = '0000';
const HEAD_END = '\r\n\r\n';
const LAST_CHUNK = '0\r\n\r\n';
const TAIL = 64;

export interface FirstTokenLoad {
  readonly folder: string;
  readonly port: number;
  /** OpenAI's by default. */
  readonly protocol?: ProtocolName;
  readonly pids: readonly number[];
  readonly headers: readonly string[];
  readonly clients: number;
  /** Measured streams of each client, one after the other. */
  readonly streams: number;
  /** Streams of each client before the measured ones, for code to be compiled. */
  readonly warmUp: number;
  readonly everyMs: number;
  readonly tokens: number;
}

export async function measure(load: FirstTokenLoad): Promise<Values> {
  const waits: number[] = [];
  const meter = new Meter(load.folder, load.pids);
  const run = async (_: unknown, at: number): Promise<void> => {
    await sleep((at * SPREAD_MS) / load.clients);
    const client = new Client(load);
    for (let n = 0; n < load.warmUp; n++) await client.run();
    for (let n = 0; n < load.streams; n++) waits.push(await client.run());
    client.close();
  };
  await Promise.all(Array.from({ length: load.clients }, run));
  return {
    p50Ms: quantile(waits, 0.5),
    p99Ms: quantile(waits, 0.99),
    streams: waits.length,
    otherCores: meter.read().otherCores,
  };
}

const requestOf = (path: string, headers: readonly string[], body: string): Buffer =>
  Buffer.from([`POST ${path} HTTP/1.1`, ...headers, `content-length: ${body.length}`, '', body].join('\r\n'));

/** Runs one stream at a time, on a reused connection where the server keeps it open. Connecting is not measured. */
class Client {
  readonly #load: FirstTokenLoad;
  readonly #protocol: StreamProtocol;
  readonly #first: Buffer;
  #socket: Socket | undefined;

  constructor(load: FirstTokenLoad) {
    this.#load = load;
    this.#protocol = PROTOCOLS[load.protocol ?? 'openai'];
    this.#first = Buffer.from(this.#protocol.mark + FIRST_TEXT);
  }

  /** Reads a stream to its end, and acknowledges it where that is usual; returns the time to its first token. */
  async run(): Promise<number> {
    const { everyMs, tokens } = this.#load;
    const { path, headers, body, ackPath } = this.#protocol;
    const token = newToken();
    const text = JSON.stringify(body(`everyMs=${everyMs} tokens=${tokens}`, token));
    const wait = await this.#stream(requestOf(path, this.#headers(headers(token)), text));
    if (ackPath) await this.#acknowledge(requestOf(ackPath(token), this.#headers(headers(token)), ''));
    return wait;
  }

  close(): void {
    this.#socket?.destroy();
  }

  #headers(own: Readonly<Record<string, string>>): string[] {
    const { port, headers } = this.#load;
    const lines = Object.entries(own).map(([name, value]) => `${name}: ${value}`);
    return [`host: 127.0.0.1:${port}`, ...lines, ...headers];
  }

  async #acknowledge(request: Buffer): Promise<void> {
    const socket = this.#socket ?? (await this.#open());
    return new Promise((resolve, reject) => {
      socket.once('data', (answer: Buffer) => {
        const text = answer.toString('latin1');
        if (text.startsWith('HTTP/1.1 204') && text.endsWith(HEAD_END)) resolve();
        else reject(new Error(`not acknowledged: ${text}`));
      });
      socket.write(request);
    });
  }

  async #stream(request: Buffer): Promise<number> {
    const socket = this.#socket ?? (await this.#open());
    const end = this.#protocol.end;
    return new Promise((resolve, reject) => {
      const begin = now();
      let wait: number | undefined;
      let tail: Buffer = Buffer.alloc(0);
      let isDone = false;
      const settle = (): void => {
        socket.off('data', onData);
        socket.off('close', settle);
        if (isDone && wait !== undefined) resolve(wait);
        else reject(new Error(`a stream was cut off: ${tail.toString('latin1')}`));
      };
      const onData = (piece: Buffer): void => {
        const text = Buffer.concat([tail, piece]);
        if (wait === undefined && text.includes(this.#first)) wait = now() - begin;
        isDone ||= text.includes(end);
        tail = text.subarray(-TAIL);
        if (isDone && tail.toString('latin1').endsWith(LAST_CHUNK)) settle();
      };
      socket.on('data', onData);
      socket.on('close', settle);
      socket.write(request);
    });
  }

  #open(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.#load.port, '127.0.0.1', () => resolve(socket));
      socket.setNoDelay(true);
      socket.once('error', reject);
      socket.once('close', () => {
        this.#socket = undefined;
      });
      this.#socket = socket;
    });
  }
}
