/**
 * Requests to one provider, for all drivers.
 *
 * A1  A request that begins a generation is sent once: providers do not recognise it when it comes again. Only
 *     requests that read are repeated.
 * A2  The key is sent to the origin of the seat's URL only, and is in no error.
 * A3  After such a request was sent, a lost answer is UNKNOWN_OUTCOME.
 */
import { type BackoffPolicy, backoffMs } from '../../../kit/backoff.ts';
import type { Env } from '../../../kit/env/env.ts';
import { pause } from '../../../kit/pause.ts';
import { type ErrorCode, OrchdError, toOrchdError } from '../../../model/errors.ts';
import { providerError } from '../../../wire/dialects/errors.ts';
import { type JsonObject, objectOf } from '../../../wire/dialects/json.ts';
import { protocolError } from '../../../wire/dialects/protocol-error.ts';
import { type Address, Outbound, type StreamReply, type Target } from '../../../wire/outbound.ts';
import { isEventStream, readErrorBody } from '../../worker/openai-calls.ts';

export interface ProviderTimes {
  /** How long the provider may take until the head of its answer. */
  readonly responseMs: number;
  /** How long a stream may be silent. */
  readonly idleMs: number;
  readonly readMs: number;
  /** The pauses between two looks at a call that the provider runs by itself. */
  readonly polls: BackoffPolicy;
  /** How long a provider that gives no usable answer is asked for a call. */
  readonly lostMs: number;
  /** How long a call is waited for at most, which is longer than any provider lets one run. */
  readonly waitMs: number;
  /** The longest search, by its tag, for a call that may have been made. */
  readonly findMs: number;
  /** A cancelled call: the wait for its id, for the answer to the order, and for its last state. Five seconds in all. */
  readonly cancelMs: { readonly id: number; readonly order: number; readonly state: number };
}

export const PROVIDER_TIMES: ProviderTimes = {
  // A model that thinks for minutes may say nothing meanwhile, and giving up makes an outcome unknown.
  responseMs: 900_000,
  idleMs: 900_000,
  readMs: 30_000,
  polls: { baseDelayMs: 1000, maxDelayMs: 30_000, jitter: 0.2 },
  lostMs: 3_600_000,
  waitMs: 48 * 3_600_000,
  findMs: 120_000,
  cancelMs: { id: 1500, order: 1500, state: 1000 },
};

export interface ProviderParts {
  readonly env: Env;
  /** The URL of the seat, without `/v1`. */
  readonly url: string;
  readonly key: string | undefined;
  /** The headers of every request, with the key. */
  readonly headers: Readonly<Record<string, string>>;
  /** Requests that run at a time. */
  readonly slots: number;
  readonly times?: Partial<ProviderTimes> | undefined;
  readonly resolve?: ((host: string) => Promise<readonly Address[]>) | undefined;
}

/** A request that begins a generation. */
export interface Generation {
  readonly path: string;
  readonly body: JsonObject;
  /** Headers that only this request has. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Requests beside those of the slots: cancels and reads. */
const EXTRA_CONNECTIONS = 16;
const MAX_READ_BYTES = 64 * 2 ** 20;
/** The longest wait that the provider can make of a pause between two reads. */
const MAX_READ_PAUSE_MS = 300_000;

export class ProviderApi {
  readonly times: ProviderTimes;
  readonly env: Env;
  readonly target: Target;
  readonly headers: Readonly<Record<string, string>>;
  readonly #base: URL;
  readonly #key: string | undefined;
  readonly #closed = new AbortController();

  constructor({ env, url, key, headers, slots, times, resolve }: ProviderParts) {
    const connections = slots + EXTRA_CONNECTIONS;
    this.env = env;
    this.times = { ...PROVIDER_TIMES, ...times };
    // A pooled connection that the provider has closed meanwhile would make the outcome of a sent request unknown.
    this.headers = { ...headers, 'content-type': 'application/json', connection: 'close' };
    this.#base = new URL(url);
    this.#key = key;
    this.target = new Outbound({
      timers: env.timers,
      limits: { maxCalls: connections, maxStreams: connections },
      ...(resolve && { resolve }),
    }).to(url);
  }

  close(): void {
    this.#closed.abort();
    this.target.close();
  }

  /** Runs a call of a driver, and makes of what it throws an error as Driver promises it. */
  async guard<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      const isUnknown = error instanceof OrchdError && error.code === 'UNKNOWN_OUTCOME';
      if (signal.aborted && !isUnknown) throw new OrchdError('CANCELLED');
      if (this.#closed.signal.aborted)
        throw new OrchdError('UNKNOWN_OUTCOME', 'the gateway was stopped during the call');
      throw this.#withoutKey(outcomeOf(error));
    }
  }

  /** Begins a generation that is answered by a stream. */
  async openStream({ path, body, headers }: Generation, signal: AbortSignal): Promise<StreamReply> {
    const { target, times } = this;
    const reply = await target.stream({
      method: 'POST',
      path,
      headers: { ...this.headers, ...headers },
      body: JSON.stringify(body),
      timeoutMs: times.responseMs,
      idleMs: times.idleMs,
      signal,
    });
    if (reply.status !== 200) throw this.refusal({ ...reply, body: await readErrorBody(reply) });
    if (isEventStream(reply)) return reply;
    reply.close();
    throw protocolError('answered with something else than a stream');
  }

  /** Begins a generation that is answered by an object. */
  async create({ path, body, headers }: Generation, signal: AbortSignal): Promise<JsonObject> {
    const { target, times } = this;
    const reply = await target.request({
      method: 'POST',
      path,
      headers: { ...this.headers, ...headers },
      body: JSON.stringify(body),
      timeoutMs: times.responseMs,
      signal,
    });
    if (reply.status !== 200) throw this.refusal(reply);
    return objectOf(reply.body.toString());
  }

  /** Reads something about a call. A 4xx is UNKNOWN_OUTCOME: the provider does not know the call, or does not tell. */
  async read(path: string, signal: AbortSignal): Promise<string> {
    const { target, headers, times } = this;
    const reply = await target.request({
      path,
      headers,
      timeoutMs: times.readMs,
      maxBytes: MAX_READ_BYTES,
      signal,
    });
    const { status } = reply;
    if (status === 200) return reply.body.toString();
    if (status >= 400 && status < 500 && status !== 429 && status !== 408) {
      throw new OrchdError('UNKNOWN_OUTCOME', `the provider answers ${status} to a question about the call`);
    }
    const { retryAfterMs } = this.refusal(reply).details;
    throw new OrchdError('WORKER_UNAVAILABLE', `the provider answers ${status}`, {
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }

  /** Sends an order that cancels a call. Whatever comes of it, the call is looked at afterwards. */
  async order(path: string): Promise<JsonObject | undefined> {
    const { target, headers, times } = this;
    try {
      const timeoutMs = times.cancelMs.order;
      const reply = await target.request({ method: 'POST', path, headers, body: '{}', timeoutMs });
      return reply.status === 200 ? objectOf(reply.body.toString()) : undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * Looks until `look` finds something. Failures of reads are waited out, for `lostMs` without a success. Throws
   * UNKNOWN_OUTCOME after `atMostMs`, or when the provider says that there is no such call.
   */
  async poll<T>(signal: AbortSignal, atMostMs: number, look: () => Promise<T | undefined>): Promise<T> {
    const { clock, random } = this.env;
    const { polls, lostMs } = this.times;
    const until = clock.monotonic() + atMostMs;
    let answeredAt = clock.monotonic();
    for (let n = 1; ; n++) {
      let waitMs = 0;
      try {
        const found = await look();
        if (found !== undefined) return found;
        answeredAt = clock.monotonic();
      } catch (error) {
        if (signal.aborted || this.#closed.signal.aborted || !isPassing(error)) throw error;
        waitMs = Math.min(error.details.retryAfterMs ?? 0, MAX_READ_PAUSE_MS);
      }
      const now = clock.monotonic();
      if (now >= until || now - answeredAt >= lostMs)
        throw new OrchdError('UNKNOWN_OUTCOME', 'the provider has not told in time what became of the call');
      await this.#pause(Math.max(waitMs, backoffMs(polls, n, random.next())), signal);
    }
  }

  /** Looks for a short time after an order to cancel; undefined where nothing is found by then. */
  async lookBriefly<T>(look: (signal: AbortSignal) => Promise<T | undefined>): Promise<T | undefined> {
    const over = new AbortController();
    const atMostMs = this.times.cancelMs.state;
    const cancelTimer = this.env.timers.after(atMostMs, () => over.abort());
    try {
      return await this.poll(over.signal, atMostMs, () => look(over.signal));
    } catch {
      return undefined;
    } finally {
      cancelTimer();
    }
  }

  /** The path below the seat's URL of an absolute URL that the provider gave; undefined if it is not below it. */
  pathOf(url: string): string | undefined {
    if (!URL.canParse(url)) return undefined;
    const { origin, pathname, search, username, password } = new URL(url);
    const base = this.#base.pathname.replace(/\/$/, '');
    const isBelow = origin === this.#base.origin && pathname.startsWith(`${base}/`);
    return isBelow && username === '' && password === '' ? pathname.slice(base.length) + search : undefined;
  }

  readonly refusal = (reply: Parameters<typeof providerError>[0]): OrchdError =>
    providerError(reply, this.env.clock.now());

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    await pause(this.env.timers, ms, AbortSignal.any([signal, this.#closed.signal]));
    if (signal.aborted) throw new OrchdError('CANCELLED');
    this.#closed.signal.throwIfAborted();
  }

  #withoutKey(error: OrchdError): OrchdError {
    const key = this.#key;
    if (key === undefined) return error;
    const message = withoutKey(error.message, key);
    return message === error.message ? error : new OrchdError(error.code, message, error.details);
  }
}

/** The fewest characters of a key that are taken for a part of it. */
const MIN_KEY_PART = 6;

/** Also a part of the key at the end of the text, which may have been cut there. */
export function withoutKey(text: string, key: string): string {
  const whole = text.replaceAll(key, '[redacted]');
  for (let chars = key.length - 1; chars >= MIN_KEY_PART; chars--) {
    if (whole.endsWith(key.slice(0, chars))) return `${whole.slice(0, -chars)}[redacted]`;
  }
  return whole;
}

/** Reasons with which the provider may have received a request, and its answer is lost. */
const LOST: ReadonlySet<string | undefined> = new Set([
  'connection_lost',
  'timeout',
  'idle',
  'malformed',
  'too_large',
]);

/** Whether the answer to a request is lost, so that the provider may have done the work. */
export const isLost = (error: unknown): boolean =>
  error instanceof OrchdError && (error.code === 'UNKNOWN_OUTCOME' || LOST.has(error.details.reason));

/** Whether a request was ended by us before its answer came. */
export const isAborted = (error: unknown): boolean =>
  error instanceof OrchdError && error.details.reason === 'aborted';

/** For a call that was cancelled, and that the provider may still run. */
export const unconfirmed = (): OrchdError =>
  new OrchdError('UNKNOWN_OUTCOME', 'the provider has not confirmed that it has ended the call');

function outcomeOf(thrown: unknown): OrchdError {
  const error = toOrchdError(thrown);
  // A provider that has not received the request has done nothing for it.
  if (error.details.reason === 'unreachable')
    return new OrchdError(error.code, error.message, { ...error.details, turnedAway: 'unreachable' });
  if (error.code === 'UNKNOWN_OUTCOME' || !isLost(error)) return error;
  return new OrchdError('UNKNOWN_OUTCOME', error.message, {}, { cause: error });
}

/** Errors of reads that may succeed later. */
const PASSING: ReadonlySet<ErrorCode> = new Set(['WORKER_UNAVAILABLE', 'WORKER_TIMEOUT', 'WORKER_PROTOCOL']);

const isPassing = (error: unknown): error is OrchdError =>
  error instanceof OrchdError && PASSING.has(error.code) && error.details.reason !== 'too_large';
