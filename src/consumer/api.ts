/** The requests of a consumer. Each of them may be repeated: an answer that was lost is asked for again. */
import type { Timers } from '../kit/env/env.ts';
import { Outbound, type Target } from '../wire/outbound.ts';
import { readError } from '../wire/read-error.ts';

const TIMEOUT_MS = 30_000;
/** An answer to a claim holds the payloads of all jobs that it has taken. */
const MAX_ANSWER_BYTES = 2 ** 30;
/** A token of the caller may be made, or be given another role, while this process runs. */
const REFUSED_FOR_NOW: readonly number[] = [401, 403, 408, 429];

/** An answer of the brain that is an error. */
export class ConsumerError extends Error {
  readonly status: number;
  readonly code: string;
  readonly retriable: boolean;

  constructor(status: number, code: string, message: string, retriable: boolean) {
    super(`${code}: ${message}`);
    this.status = status;
    this.code = code;
    this.retriable = retriable || status >= 500 || REFUSED_FOR_NOW.includes(status);
  }

  get isAboutToken(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

/** Whether the brain does not know the consumer any more. */
export const isGone = (error: unknown): boolean =>
  error instanceof ConsumerError && error.code === 'CONSUMER_GONE';

/** Whether the same request would be refused again. */
export const isFinal = (error: unknown): boolean => error instanceof ConsumerError && !error.retriable;

export interface ConsumerRequest {
  readonly body?: unknown;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface ApiAddress {
  readonly url: string;
  readonly token: string | undefined;
}

export class ConsumerApi {
  readonly #outbound: Outbound;
  readonly #address: ApiAddress;
  #target: Target | undefined;

  constructor(address: ApiAddress, timers: Timers) {
    this.#address = address;
    this.#outbound = new Outbound({ timers });
    this.#target = this.#outbound.to(address.url);
  }

  async call<T>(method: 'GET' | 'POST' | 'DELETE', path: string, request: ConsumerRequest = {}): Promise<T> {
    const { body, timeoutMs = TIMEOUT_MS, signal } = request;
    const reply = await this.#send({
      method,
      path,
      headers: this.#headers(),
      timeoutMs,
      maxBytes: MAX_ANSWER_BYTES,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    const text = reply.body.toString();
    if (reply.status < 300) return JSON.parse(text) as T;
    const error = readError(text);
    if (!error) throw new Error(`status ${reply.status} without an error of orchd`);
    throw new ConsumerError(reply.status, error.code, error.message ?? '', error.retriable === true);
  }

  close(): void {
    this.#outbound.close();
  }

  async #send(request: Parameters<Target['request']>[0]): ReturnType<Target['request']> {
    this.#target ??= this.#outbound.to(this.#address.url);
    const target = this.#target;
    try {
      return await target.request(request);
    } catch (error) {
      // The name of the brain's machine may lead somewhere else by now; only a new target looks it up again.
      if (this.#target === target) this.#target = undefined;
      target.retire();
      throw error;
    }
  }

  #headers(): Record<string, string> {
    const { token } = this.#address;
    return {
      'content-type': 'application/json',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
  }
}
