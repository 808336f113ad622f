/** What the calls of the client that stream need of it. */

/** The options of fetch() that they use; `duplex` is needed for a body that is a stream, and missing in the types. */
export interface StreamInit {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | ReadableStream<Uint8Array>;
  readonly duplex?: 'half';
  readonly signal?: AbortSignal;
}

export interface Requests {
  /** Sends a request to a path; throws unless a brain answers it with success. */
  send(path: string, init: StreamInit): Promise<Response>;
  /** The error of an answer that broke off. */
  broken(error: Error): Error;
}
