/**
 * The TypeScript client: what the command line, the dashboard and users share. It talks HTTP and nothing else,
 * and runs in browsers too.
 */
import { ERRORS, OrchdError } from '../model/errors.ts';
import type { BulkAnswer, JobPage, JobView, SubmittedTask } from '../model/http/jobs.ts';
import type { Capabilities, Health } from '../model/http/meta.ts';
import type { ListRequest, ResolveRequest, SubmitRequest } from '../model/submit.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import { type ReadError, readError } from '../wire/read-error.ts';
import { readEvents, type SseEvent } from '../wire/sse.ts';

export interface ClientOptions {
  /** Where the brain listens; `http://127.0.0.1:8080` by default. */
  readonly url?: string;
  readonly token?: string;
  readonly fetch?: typeof fetch;
}

/** An answer that is no success, or none: the code is stable, the message is for people. */
export class ClientError extends Error {
  readonly code: string;
  /** Of HTTP; 0 where nothing answered. */
  readonly status: number;
  readonly retriable: boolean;
  readonly next: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(status: number, error: ReadError, options?: ErrorOptions) {
    super(error.message ?? `the server answered ${status}`, options);
    this.name = 'ClientError';
    this.code = error.code;
    this.status = status;
    this.retriable = error.retriable ?? status >= 500;
    this.next = error.next;
    this.retryAfterMs = error.retry_after_ms;
  }
}

export interface TaskEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: unknown;
}

export interface FollowOptions {
  /** The id of the last event that the caller has. */
  readonly after?: string;
  readonly signal?: AbortSignal;
  /** How long to go on trying when the brain does not answer. */
  readonly patienceMs?: number;
  readonly onReconnect?: (error: Error) => void;
}

const DEFAULT_URL = 'http://127.0.0.1:8080';
const RECONNECT_MS = 250;
const PATIENCE_MS = 60_000;
const CALL_TIMEOUT_MS = 30_000;

export class OrchdClient {
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    this.#base = (options.url ?? DEFAULT_URL).replace(/\/+$/, '');
    this.#token = options.token;
    this.#fetch = options.fetch ?? fetch;
  }

  submit(request: SubmitRequest): Promise<SubmittedTask> {
    return this.#call('POST', '/v2/tasks', request);
  }

  /** Up to 1,000 at once, in one commit; an answer each. */
  async submitMany(requests: readonly SubmitRequest[]): Promise<readonly BulkAnswer[]> {
    const { answers } = await this.#call<{ answers: BulkAnswer[] }>('POST', '/v2/tasks', requests);
    return answers;
  }

  get(jobId: string): Promise<JobView> {
    return this.#call('GET', `/v2/tasks/${encodeURIComponent(jobId)}`);
  }

  list(request: ListRequest = {}): Promise<JobPage> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(request))
      if (value !== undefined) query.set(name, String(value));
    return this.#call('GET', `/v2/tasks?${query}`);
  }

  cancel(jobId: string): Promise<JobView> {
    return this.#call('POST', `/v2/tasks/${encodeURIComponent(jobId)}/cancel`);
  }

  redrive(jobId: string): Promise<JobView> {
    return this.#call('POST', `/v2/tasks/${encodeURIComponent(jobId)}/redrive`);
  }

  resolve(jobId: string, how: ResolveRequest): Promise<JobView> {
    return this.#call('POST', `/v2/tasks/${encodeURIComponent(jobId)}/resolve`, how);
  }

  health(): Promise<Health> {
    return this.#call('GET', '/health');
  }

  capabilities(): Promise<Capabilities> {
    return this.#call('GET', '/v2/meta/capabilities');
  }

  /**
   * The events of a job to its end. A lost connection is taken up again where it broke, over restarts of the
   * brain too; what was handed on is never repeated.
   */
  async *events(jobId: string, options: FollowOptions = {}): AsyncGenerator<TaskEvent> {
    let after = options.after;
    let failingSince: number | undefined;
    for (;;) {
      try {
        for await (const event of this.#stream(jobId, after, options.signal, () => {
          failingSince = undefined;
        })) {
          after = event.id ?? after;
          yield { id: event.id, event: event.event, data: dataOf(event) };
          if (event.event === 'end' || event.event === 'error') return;
        }
      } catch (error) {
        if (options.signal?.aborted) return;
        // What is wrong with the request or in the stream itself is there again the next time.
        if ((error instanceof ClientError || error instanceof OrchdError) && !error.retriable) throw error;
        failingSince ??= Date.now();
        if (Date.now() - failingSince > (options.patienceMs ?? PATIENCE_MS)) throw error;
        options.onReconnect?.(error as Error);
      }
      if (after?.endsWith('.end')) return;
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    }
  }

  async *#stream(
    jobId: string,
    after: string | undefined,
    signal: AbortSignal | undefined,
    onOpen: () => void,
  ): AsyncGenerator<SseEvent> {
    const headers = this.#headers();
    if (after !== undefined) headers[LAST_EVENT_ID] = after;
    const path = `/v2/tasks/${encodeURIComponent(jobId)}/events`;
    const response = await this.#reach(path, { headers, ...(signal && { signal }) });
    onOpen();
    if (!response.body || response.status === 204) return;
    yield* readEvents(response.body);
  }

  async #call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers = this.#headers();
    if (body !== undefined) headers['content-type'] = 'application/json';
    const response = await this.#reach(path, {
      method,
      headers,
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return (await response.json().catch((error: Error) => {
      throw noAnswer(this.#base, error);
    })) as T;
  }

  /** The answer of a brain, if it is a success. */
  async #reach(path: string, init: RequestInit): Promise<Response> {
    const response = await this.#fetch(this.#base + path, { ...init, redirect: 'error' }).catch((error) => {
      throw noAnswer(this.#base, error);
    });
    if (!isFromBrain(response)) throw stranger(this.#base, response.status);
    if (!response.ok) throw await failure(response);
    return response;
  }

  #headers(): Record<string, string> {
    return this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
  }
}

/** What is not JSON is not from a brain, and would be the same the next time. */
function dataOf({ data }: SseEvent): unknown {
  try {
    return JSON.parse(data);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'an event of the stream is not JSON');
  }
}

function isFromBrain({ status, headers }: Response): boolean {
  const type = headers.get('content-type') ?? '';
  return status === 204 || /^(application\/json|text\/event-stream)/.test(type);
}

function noAnswer(base: string, error: Error): ClientError {
  return unreachable(0, noAnswerText(shown(base), error), true, { cause: error });
}

function noAnswerText(url: string, error: Error): string {
  if (error.name === 'TimeoutError') return `${url} did not answer within ${CALL_TIMEOUT_MS / 1000} s`;
  const cause = error.cause as (Error & { code?: string }) | undefined;
  switch (cause?.code) {
    case 'ECONNREFUSED':
      return `nothing answers at ${url}`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `there is no host "${new URL(url).hostname}"`;
    default:
      // What a browser says of it holds nothing that helps.
      return `${url} cannot be reached${cause ? ` (${cause.code ?? cause.message})` : ''}`;
  }
}

/** A proxy says so too while there is no brain behind it. */
const stranger = (base: string, status: number): ClientError =>
  unreachable(status, `what answers at ${shown(base)} is not orchd (HTTP ${status})`, status >= 500);

function unreachable(status: number, message: string, retriable: boolean, how?: ErrorOptions): ClientError {
  const { next } = ERRORS.UNREACHABLE;
  return new ClientError(status, { code: 'UNREACHABLE', message, retriable, next }, how);
}

/** Without a name and a password. */
const shown = (url: string): string => url.replace(/\/\/[^/]*@/, '//');

async function failure(response: Response): Promise<ClientError> {
  const text = await response.text().catch(() => '');
  return new ClientError(response.status, readError(text) ?? { code: 'INTERNAL' });
}
