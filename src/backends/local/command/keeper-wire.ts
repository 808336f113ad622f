/**
 * What a brain and its keeper say to each other through the pipes of the keeper: orders on its standard input, one reply
 * to each on its standard output. An order is a line of JSON and `bytes` bytes of payload behind it: escaping the text
 * of a payload once more would hold the brain's event loop. Nothing of it is written to a file: `env` may contain
 * secrets.
 */
import type { JsonOutput } from './json-output.ts';
import type { Split } from './layout.ts';

/** A command that is to be run. */
export interface CommandSpec {
  /** The name of the token's folder. */
  readonly name: string;
  readonly token: string;
  /** The hash of the job's body, where its id was chosen by a caller. */
  readonly hash: string | undefined;
  readonly jobId: string;
  readonly model: string | undefined;
  readonly argv: readonly string[];
  /** The working directory; if undefined, the empty `work` folder of the token. */
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly split: Split;
  readonly timeoutMs: number | undefined;
  /** Nobody else stops the command at its timeout, so that its keeper does at once. */
  readonly isOwnTimeout?: boolean | undefined;
  readonly maxOutputBytes: number;
  readonly offeredAt: number;
  readonly output?: JsonOutput | undefined;
}

export type KeeperOrder =
  | { readonly is: 'run'; readonly spec: CommandSpec }
  /** Take over the execution in this folder, whose keeper is dead. */
  | { readonly is: 'adopt'; readonly name: string }
  /** End this command. Used where the `kill` file, which every keeper looks for, cannot be written. */
  | { readonly is: 'kill'; readonly name: string };

/** The line before the payload. */
export interface OrderHeader {
  readonly id: number;
  /** The length of the payload, 0 where the order has none. */
  readonly bytes: number;
  /** The folder of the backend, and the id of its registry, which is part of the mark of every process. */
  readonly folder: string;
  readonly registry: string;
  readonly order: KeeperOrder;
}

export type KeeperReply =
  /** The command is being run, the execution was taken over, or its end has begun. */
  | { readonly is: 'accepted' }
  /** The token's folder exists, or the execution has another keeper that lives. */
  | { readonly is: 'taken' }
  /** The keeper was told to stop, and takes no orders. */
  | { readonly is: 'stopping' }
  | { readonly is: 'failed'; readonly message: string };

export type ReplyLine = KeeperReply & { readonly id: number };

/** Longer than any header: the environment and the arguments of a command have 2 MiB together. */
const MAX_HEADER_BYTES = 16 * 1024 * 1024;
const NEWLINE = 0x0a;
const NOTHING: Buffer = Buffer.alloc(0);

/** Takes the payload of one order. */
export interface PayloadSink {
  write(bytes: Buffer): void;
  /** The payload is whole. */
  end(): void;
  /** The brain died before it had written the whole payload. */
  abort(): void;
}

/** Cuts the bytes of a pipe into orders. Throws where they are none. */
export class OrderReader {
  readonly #begin: (header: OrderHeader) => PayloadSink;
  #line: Buffer = NOTHING;
  #sink: PayloadSink | undefined;
  #left = 0;

  constructor(begin: (header: OrderHeader) => PayloadSink) {
    this.#begin = begin;
  }

  push(bytes: Buffer): void {
    let rest = bytes;
    while (rest.length > 0) rest = this.#sink ? this.#payload(this.#sink, rest) : this.#header(rest);
  }

  /** The pipe has ended: an order that is not whole is not carried out. */
  end(): void {
    this.#sink?.abort();
    this.#sink = undefined;
  }

  #header(bytes: Buffer): Buffer {
    const end = bytes.indexOf(NEWLINE);
    this.#line = Buffer.concat([this.#line, end < 0 ? bytes : bytes.subarray(0, end)]);
    if (this.#line.length > MAX_HEADER_BYTES) throw new Error('an order without an end');
    if (end < 0) return NOTHING;
    const header = JSON.parse(this.#line.toString()) as OrderHeader;
    this.#line = NOTHING;
    this.#sink = this.#begin(header);
    this.#left = header.bytes;
    return this.#payload(this.#sink, bytes.subarray(end + 1));
  }

  #payload(sink: PayloadSink, bytes: Buffer): Buffer {
    const part = bytes.subarray(0, this.#left);
    if (part.length > 0) sink.write(part);
    this.#left -= part.length;
    if (this.#left === 0) {
      this.#sink = undefined;
      sink.end();
    }
    return bytes.subarray(part.length);
  }
}
