/**
 * A server of the Model Context Protocol on standard input and output: one message a line in both directions. Requests
 * are answered side by side, and the client may cancel them.
 */
import { OrchdError, toOrchdError } from '../model/errors.ts';
import { parseJsonBody } from '../wire/json-body.ts';
import { type Line, LineSplitter } from '../wire/line-splitter.ts';
import { type Fields, isRequestId, type McpRequest, readMessage } from '../wire/mcp/message.ts';
import { failure, type RequestId, RPC, type RpcError } from '../wire/mcp/protocol.ts';
import { answerRequest, type McpExchange } from '../wire/mcp/server.ts';

/** As large as the body of an HTTP request. */
export const MAX_LINE_BYTES = 17 * 2 ** 20;
/** The requests that are answered at one time. */
export const MAX_REQUESTS = 64;

export interface StdioParts {
  readonly input: AsyncIterable<Buffer>;
  /** Writes a line; resolves when more can be written. */
  readonly write: (line: string) => Promise<void>;
  readonly exchange: Omit<McpExchange, 'signal' | 'notify'>;
}

export class McpStdio {
  readonly #parts: StdioParts;
  /** The requests whose answers are not written yet: a client that does not read can only have so many. */
  readonly #open = new Map<RequestId, AbortController>();
  #written: Promise<void> = Promise.resolve();

  constructor(parts: StdioParts) {
    this.#parts = parts;
  }

  /** Resolves when the input has ended. Requests that are not answered by then get no answer: nobody waits for it. */
  async run(): Promise<void> {
    const lines = new LineSplitter(MAX_LINE_BYTES);
    try {
      for await (const piece of this.#parts.input)
        for (const line of lines.add(piece)) await this.#take(line);
    } finally {
      for (const stop of this.#open.values()) stop.abort();
    }
  }

  /** Resolves when the line is read, and its answer is under way. */
  async #take({ bytes }: Line): Promise<void> {
    if (!bytes) return this.#refuse(null, TOO_LARGE);
    const read = parsed(bytes);
    if ('fault' in read) return this.#refuse(null, read.fault);
    const message = readMessage(read.value);
    if (message.is === 'invalid') return this.#refuse(message.id, message.error);
    if (message.is === 'notification' && message.method === 'notifications/cancelled')
      this.#cancel(message.params);
    if (message.is !== 'request') return;
    if (this.#open.has(message.id)) return this.#refuse(message.id, USED_ID);
    if (this.#open.size >= MAX_REQUESTS) return this.#refuse(message.id, TOO_MANY);
    const stop = new AbortController();
    this.#open.set(message.id, stop);
    void this.#answer(message, stop.signal);
  }

  #cancel({ requestId }: Fields): void {
    if (isRequestId(requestId)) this.#open.get(requestId)?.abort();
  }

  /** Never rejects. */
  async #answer(request: McpRequest, signal: AbortSignal): Promise<void> {
    const { exchange } = this.#parts;
    const notify: McpExchange['notify'] = (notification) => {
      if (!signal.aborted) void this.#send(notification);
    };
    const reply = await answerRequest(request, { ...exchange, signal, notify }).catch((error) =>
      failure(request.id, { code: RPC.internalError, message: toOrchdError(error).message }),
    );
    if (reply && !signal.aborted) await this.#send(reply);
    this.#open.delete(request.id);
  }

  #refuse(id: RequestId | null, error: RpcError): Promise<void> {
    return this.#send(failure(id, error));
  }

  /** One line after another; resolves when more can be written. */
  #send(message: unknown): Promise<void> {
    this.#written = this.#written.then(() => this.#parts.write(`${JSON.stringify(message)}\n`));
    return this.#written;
  }
}

const TOO_LARGE = {
  code: RPC.invalidRequest,
  message: `the message is larger than ${MAX_LINE_BYTES} bytes`,
};
const USED_ID = {
  code: RPC.invalidRequest,
  message: 'a request with this id is not answered yet: use another id',
};
const TOO_MANY = {
  code: RPC.internalError,
  message: `${MAX_REQUESTS} requests are not answered yet: wait for one of them`,
};

function parsed(bytes: Buffer): { readonly value: unknown } | { readonly fault: RpcError } {
  try {
    return { value: parseJsonBody(bytes) };
  } catch (error) {
    const message = error instanceof OrchdError ? error.message : 'the message is not valid JSON';
    return { fault: { code: RPC.parseError, message: message.replace('the body', 'the message') } };
  }
}
