/**
 * The stdio transport: one JSON text a line. The official one passes on HOME, USER and others, and starts no process
 * group; this one implements the same interface over ServerProcess.
 *
 * T1  What is not an answer to a request of ours counts against an allowance. A server that exceeds it, or sends a line
 *     that is too long, is cut off.
 */
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { LineSplitter } from '../../wire/line-splitter.ts';
import type { Allowance } from './allowance.ts';
import type { ServerProcess } from './server-process.ts';

export interface StdioTransportParts {
  /** Starts the process: called once, by `start`. */
  readonly spawn: () => ServerProcess;
  readonly allowance: Allowance;
  readonly maxMessageBytes: number;
}

type RequestId = string | number;

interface Received {
  readonly jsonrpc?: unknown;
  readonly id?: RequestId;
  readonly method?: unknown;
}

export class StdioTransport implements Transport {
  onclose: (() => void) | undefined;
  onerror: ((error: Error) => void) | undefined;
  onmessage: ((message: JSONRPCMessage) => void) | undefined;
  /** The client recognises a stdio transport by `pid` and `stderr`, and then takes a silent server for an older one. */
  readonly stderr = null;
  /** Why the connection was closed; undefined while it is open. */
  failure: string | undefined;
  readonly #parts: StdioTransportParts;
  readonly #lines: LineSplitter;
  /** The requests without an answer so far. */
  readonly #open = new Set<RequestId>();
  #process: ServerProcess | undefined;

  constructor(parts: StdioTransportParts) {
    this.#parts = parts;
    this.#lines = new LineSplitter(parts.maxMessageBytes);
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  async start(): Promise<void> {
    const process = this.#parts.spawn();
    this.#process = process;
    process.output.on('data', (piece: Buffer) => this.#read(piece));
    void process.ended.then((how) => {
      this.failure ??= how;
      this.onclose?.();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { input } = this.#process ?? {};
    if (!input?.writable) throw new Error('the server is not running');
    const { id, method } = message as Received;
    if (method !== undefined && id !== undefined) this.#open.add(id);
    if (input.write(`${JSON.stringify(message)}\n`)) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        input.off('drain', done).off('close', done);
        resolve();
      };
      input.on('drain', done).on('close', done);
    });
  }

  async close(): Promise<void> {
    await this.#process?.stop();
  }

  /** T1. */
  #cutOff(why: string): void {
    this.failure ??= why;
    this.#process?.output.removeAllListeners('data').resume();
    this.#process?.kill();
  }

  #read(piece: Buffer): void {
    let isTooLong = false;
    for (const { bytes } of this.#lines.add(piece)) {
      if (this.failure !== undefined) return;
      if (bytes) this.#message(bytes);
      else isTooLong = true;
    }
    if (isTooLong || this.#lines.isTooLong)
      this.#cutOff(`it sent a message of more than ${this.#parts.maxMessageBytes} bytes`);
  }

  #message(line: Buffer): void {
    const message = messageIn(line);
    const isAnswer =
      message?.method === undefined && message?.id !== undefined && this.#open.delete(message.id);
    if (!isAnswer && !this.#parts.allowance.take(line.length))
      return this.#cutOff('it sent too much that nobody had asked for');
    if (message) this.onmessage?.(message as JSONRPCMessage);
  }
}

/** Undefined for a line that is no message: many programs print something before they become servers. */
function messageIn(line: Buffer): Received | undefined {
  try {
    const value = JSON.parse(line.toString('utf8')) as Received | null;
    return typeof value === 'object' && value?.jsonrpc === '2.0' ? value : undefined;
  } catch {
    return undefined;
  }
}
