/** Clients of OpenAI streams, in a process of their own: they measure the time from the request to the first token. */
import { connect, type Socket } from 'node:net';
import type { Values } from '../kit/bench.ts';
import { Meter } from '../kit/meter.ts';
import { now, quantile, sleep } from '../kit/numbers.ts';
import { MODEL } from '../systems/pool-stub.ts';

/** The clients start spread over this time, so that their streams do not start together. */
const SPREAD_MS = 1000;
/** The beginning of the first token, whose text is its number. */
const FIRST = Buffer.from('"content":"0000');
const DONE = Buffer.from('[DONE]');
const LAST_CHUNK = '0\r\n\r\n';
const TAIL = 64;

export interface FirstTokenLoad {
  readonly folder: string;
  readonly port: number;
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
  const request = requestOf(load);
  const waits: number[] = [];
  const meter = new Meter(load.folder, load.pids);
  const run = async (_: unknown, at: number): Promise<void> => {
    await sleep((at * SPREAD_MS) / load.clients);
    const client = new Client(load.port);
    for (let n = 0; n < load.warmUp; n++) await client.stream(request);
    for (let n = 0; n < load.streams; n++) waits.push(await client.stream(request));
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

function requestOf({ port, headers, everyMs, tokens }: FirstTokenLoad): Buffer {
  const messages = [{ role: 'user', content: `everyMs=${everyMs} tokens=${tokens}` }];
  const body = JSON.stringify({ model: MODEL, stream: true, messages });
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    `host: 127.0.0.1:${port}`,
    'content-type: application/json',
    ...headers,
    `content-length: ${body.length}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/** Runs one stream at a time, on a reused connection where the server keeps it open. Connecting is not measured. */
class Client {
  readonly #port: number;
  #socket: Socket | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  /** Reads a stream to its end; returns the time to its first token. */
  async stream(request: Buffer): Promise<number> {
    const socket = this.#socket ?? (await this.#open());
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
        if (wait === undefined && text.includes(FIRST)) wait = now() - begin;
        isDone ||= text.includes(DONE);
        tail = text.subarray(-TAIL);
        if (isDone && tail.toString('latin1').endsWith(LAST_CHUNK)) settle();
      };
      socket.on('data', onData);
      socket.on('close', settle);
      socket.write(request);
    });
  }

  close(): void {
    this.#socket?.destroy();
  }

  #open(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.#port, '127.0.0.1', () => resolve(socket));
      socket.setNoDelay(true);
      socket.once('error', reject);
      socket.once('close', () => {
        this.#socket = undefined;
      });
      this.#socket = socket;
    });
  }
}
