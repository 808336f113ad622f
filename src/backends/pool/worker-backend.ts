/**
 * The backend for one worker of a pool. The brain calls the worker directly, at the address that its pool manager
 * reported. The worker answers an offer with the stream of the execution's events; that stream is kept for the `follow`
 * that comes next, so that a job costs one request.
 */

import type {
  Backend,
  BackendInfo,
  ExecutionEnd,
  ExecutionEvent,
  ExecutionOutcome,
  ExecutionStatus,
  FollowEnd,
  Inspection,
  KillHow,
  KillReply,
  Offer,
  OfferReply,
  UsedTokens,
} from '../../core/ports/backend.ts';
import { checker } from '../../kit/check.ts';
import type { Timers } from '../../kit/env/env.ts';
import { type ErrorInfo, errorInfo, isErrorCode, OrchdError } from '../../model/errors.ts';
import { jobOfToken, scoped } from '../../model/records.ts';
import type { Commander } from '../../model/worker-wire.ts';
import {
  CancelReply,
  EndEvent,
  ErrorEvent,
  ExecutionList,
  type ExecutionResult,
  ExecutionState,
  HASH_HEADER,
  REGISTRY_HEADER,
  TOKEN_HEADER,
  type WorkerOutcome,
} from '../../model/worker-wire.ts';
import { commanderHeaders } from '../../wire/epochs.ts';
import type { OutboundReply, StreamReply, Target } from '../../wire/outbound.ts';
import type { SseEvent } from '../../wire/sse.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';

/** A stream from an offer that no `follow` has taken by then is closed. */
const UNREAD_STREAM_MS = 5000;
const MAX_ERROR_BYTES = 64 * 1024;
/** As large as a result, because the `end` event carries the result. */
const MAX_EVENT_CHARS = 32 * 2 ** 20;
const MAX_MESSAGE_CHARS = 2000;

const checkList = checker(ExecutionList);
const checkState = checker(ExecutionState);
const checkCancel = checker(CancelReply);
const checkEnd = checker(EndEvent);
const checkError = checker(ErrorEvent);

export interface WorkerBackendOptions {
  readonly info: BackendInfo;
  readonly target: Target;
  /** The bearer token that the worker demands. */
  readonly secret: string | undefined;
  readonly timers: Timers;
}

export class WorkerBackend implements Backend {
  readonly info: BackendInfo;
  readonly #target: Target;
  readonly #secret: string | undefined;
  readonly #timers: Timers;
  /** Streams that answered an offer and wait for their `follow`, by the token of the attempt. */
  readonly #unread = new Map<string, StreamReply>();

  constructor(options: WorkerBackendOptions) {
    this.info = options.info;
    this.#target = options.target;
    this.#secret = options.secret;
    this.#timers = options.timers;
  }

  async offer(offer: Offer): Promise<OfferReply> {
    const body = requestBody(offer);
    if (body === undefined) {
      return {
        is: 'refused',
        error: errorInfo('INVALID_PARAMS', 'the payload of an inference is an object'),
      };
    }
    const headers = this.#headers(offer);
    headers['content-type'] = 'application/json';
    headers[TOKEN_HEADER] = offer.token;
    if (offer.registry !== undefined) headers[REGISTRY_HEADER] = offer.registry;
    if (offer.ask.hash !== undefined) headers[HASH_HEADER] = offer.ask.hash;
    const reply = await this.#target.stream({ method: 'POST', path: '/execute', headers, body });
    if (reply.status !== 200) return refusal(await readError(reply));
    this.#keepUnread(offer.token, reply);
    return { is: 'accepted' };
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    const list = checkList(await this.#json('GET', '/executions', who));
    const known = new Map<string, ExecutionStatus>();
    const wanted = new Set(tokens);
    for (const { token, state, hash } of list.executions) {
      if (!wanted.has(token)) continue;
      const status: ExecutionStatus = state === 'running' ? { is: 'running' } : await this.#ended(token, who);
      known.set(token, hash === undefined ? status : { ...status, hash });
    }
    const { registry, remembered_since: rememberedSince, opening_before: openingBefore } = list;
    return { registry, rememberedSince, known, openingBefore };
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    const reply = (from === 0 ? this.#takeUnread(token) : undefined) ?? (await this.#open(token, from, who));
    if (!reply) return { is: 'lost' };
    const stop = (): void => reply.close();
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    try {
      return await readExecution(reply, on);
    } catch (error) {
      if (!isProtocolError(error)) return { is: 'lost' };
      // The events cannot be understood, so the execution is killed: nobody could read the rest of it.
      await this.kill(token, who).catch(() => undefined);
      return { is: 'ended', outcome: { ok: false, error: (error as OrchdError).info() } };
    } finally {
      signal?.removeEventListener('abort', stop);
      reply.close();
    }
  }

  async kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    const body = JSON.stringify({ job_id: jobOfToken(token), token, how });
    const reply = await this.#request('POST', '/cancel', who, body);
    if (isFenced(reply)) return { is: 'fenced' };
    const { is, outcome, hash, registry, remembered_since, opening_before } = checkCancel(jsonOf(reply));
    if (is === 'tombstoned')
      return {
        is,
        registry,
        rememberedSince: remembered_since,
        ...(opening_before && { openingBefore: opening_before }),
      };
    if (is !== 'ended') return { is };
    return hash === undefined ? executionEnd(outcome) : { ...executionEnd(outcome), hash };
  }

  async ack(token: string, who: Commander): Promise<void> {
    await this.#request('POST', `/executions/${encodeURIComponent(token)}/ack`, who);
  }

  async stop(): Promise<void> {
    this.#target.close();
  }

  /** Called when another backend object replaces this one: open streams are read to their end, no connection is kept. */
  retire(): void {
    this.#target.retire();
  }

  async #open(token: string, from: number, who: Commander): Promise<StreamReply | undefined> {
    const path = `/executions/${encodeURIComponent(token)}/events?from=${from}`;
    const reply = await this.#target.stream({ path, headers: this.#headers(who) });
    if (reply.status === 200) return reply;
    reply.close();
    return undefined;
  }

  async #ended(token: string, who: Commander): Promise<ExecutionStatus> {
    const path = `/executions/${encodeURIComponent(token)}`;
    const { state, outcome } = checkState(await this.#json('GET', path, who));
    if (state === 'running') return { is: 'running' };
    return executionEnd(outcome);
  }

  async #json(method: 'GET' | 'POST', path: string, who: Commander): Promise<unknown> {
    return jsonOf(await this.#request(method, path, who));
  }

  async #request(
    method: 'GET' | 'POST',
    path: string,
    who: Commander,
    body?: string,
  ): Promise<OutboundReply> {
    const headers = this.#headers(who);
    if (method === 'POST') headers['content-type'] = 'application/json';
    return this.#target.request({ method, path, headers, ...(body !== undefined && { body }) });
  }

  #headers(who: Commander): Record<string, string> {
    const headers = commanderHeaders(who);
    if (this.#secret !== undefined) headers['authorization'] = `Bearer ${this.#secret}`;
    return headers;
  }

  #keepUnread(token: string, reply: StreamReply): void {
    this.#unread.get(token)?.close();
    this.#unread.set(token, reply);
    this.#timers.after(UNREAD_STREAM_MS, () => {
      if (this.#unread.get(token) === reply) this.#takeUnread(token)?.close();
    });
  }

  #takeUnread(token: string): StreamReply | undefined {
    const reply = this.#unread.get(token);
    this.#unread.delete(token);
    return reply;
  }
}

/**
 * The body of POST /execute: the fields of the payload, then `job_id`, `model` and `session_id`. Ours come last because
 * the last of two equal keys counts, so the caller cannot override them. Undefined if the payload is neither an object nor a text.
 */
function requestBody({ payloadText, ask }: Offer): string | undefined {
  const text = payloadText.trim();
  // The session id is prefixed with the tenant: two tenants may use the same one. A job without a session sends '', so
  // that a `session_id` in the payload cannot select the session of another job.
  const session_id = ask.spec.session_id === undefined ? '' : scoped(ask.tenant, ask.spec.session_id);
  const own = JSON.stringify({ job_id: ask.id, model: ask.spec.model, session_id });
  if (text.startsWith('"')) return `{"prompt":${text},${own.slice(1)}`;
  if (!text.startsWith('{') || !text.endsWith('}')) return undefined;
  const fields = text.slice(1, -1).trim();
  return fields === '' ? own : `{${fields},${own.slice(1)}`;
}

/** Reads the events of an execution; `lost` where the stream breaks off before the final event. */
async function readExecution(reply: StreamReply, on: (event: ExecutionEvent) => void): Promise<FollowEnd> {
  let end: FollowEnd = { is: 'lost' };
  await eachEvent(
    reply,
    (event) => {
      if (end.is !== 'lost') return;
      if (event.event === 'end' || event.event === 'error') end = endOf(event);
      else on(executionEvent(event));
    },
    MAX_EVENT_CHARS,
  );
  return end;
}

const PROGRESS_EVENTS: ReadonlySet<string> = new Set(['started', 'token', 'metrics']);

function executionEvent({ id, event, data }: SseEvent): ExecutionEvent {
  const n = Number(id);
  if (!PROGRESS_EVENTS.has(event) || !Number.isSafeInteger(n) || n < 1) {
    throw new OrchdError('WORKER_PROTOCOL', 'an event of the worker has no number or no known type');
  }
  return { n, type: event as 'token', data: parse(data), ...(!data.includes('\n') && { text: data }) };
}

function endOf({ event, data }: SseEvent): ExecutionEnd {
  const value = parse(data);
  if (event === 'error') return executionEnd({ ok: false, error: checked(checkError, value) });
  const { result, decode_time_ms } = checked(checkEnd, value);
  return executionEnd({ ok: true, result, decode_time_ms });
}

/** The outcome is unknown where the worker has dropped it, and where it says that it cannot tell. */
function executionEnd(outcome: WorkerOutcome | undefined): ExecutionEnd {
  if (!outcome) return { is: 'forgotten' };
  if (outcome.ok === false && outcome.error.code === 'UNKNOWN_OUTCOME')
    return { is: 'forgotten', why: outcome.error.message.slice(0, MAX_MESSAGE_CHARS) };
  return { is: 'ended', outcome: outcomeOf(outcome) };
}

function usedTokens({ usage }: ExecutionResult, decodeMs: number): UsedTokens | undefined {
  return usage && { prompt: usage.prompt_tokens, completion: usage.completion_tokens, decodeMs };
}

function outcomeOf(outcome: WorkerOutcome): ExecutionOutcome {
  if (outcome.ok === true) {
    const { result, decode_time_ms = 0 } = outcome;
    const usage = usedTokens(result, decode_time_ms);
    return { ok: true, result, ...(usage && { usage }) };
  }
  if (outcome.ok === 'cancelled' || outcome.error.code === 'CANCELLED') return { ok: 'cancelled' };
  const { retry_after_ms } = outcome.error;
  const error = infoOf(outcome.error);
  return { ok: false, error, ...(retry_after_ms !== undefined && { retryAfterMs: retry_after_ms }) };
}

/** The worker's error; a code that is not in our catalogue becomes EXECUTION_FAILED with that code as its reason. */
function infoOf({ code, message, retriable }: ErrorEvent): ErrorInfo {
  const known = isErrorCode(code);
  const base = errorInfo(known ? code : 'EXECUTION_FAILED', message.slice(0, MAX_MESSAGE_CHARS));
  return { ...base, retriable, ...(!known && { reason: code.slice(0, 128) }) };
}

function refusal(error: ErrorInfo & { retryAfterMs?: number }): OfferReply {
  if (error.code === 'FENCED') return { is: 'fenced' };
  if (error.code === 'TOKEN_CONFLICT') return { is: 'conflict' };
  const { retryAfterMs, ...info } = error;
  if (info.code === 'WORKER_BUSY') return { is: 'busy', ...(retryAfterMs !== undefined && { retryAfterMs }) };
  return { is: 'refused', error: info };
}

/** The error in the body of a refused offer. Throws where it is not in the agreed form: the worker may run the job. */
async function readError(reply: StreamReply): Promise<ErrorInfo & { retryAfterMs?: number }> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  await reply.read((piece) => {
    bytes += piece.length;
    if (bytes > MAX_ERROR_BYTES)
      throw new OrchdError('WORKER_PROTOCOL', 'an error of the worker is too long');
    pieces.push(piece);
  });
  const { error } = parse(Buffer.concat(pieces).toString()) as { error?: unknown };
  const { retry_after_ms, ...fields } = checked(checkError, error);
  return { ...infoOf(fields), ...(retry_after_ms !== undefined && { retryAfterMs: retry_after_ms }) };
}

function jsonOf(reply: OutboundReply): unknown {
  if (isFenced(reply)) throw new OrchdError('FENCED');
  if (reply.status >= 300) throw new OrchdError('WORKER_PROTOCOL', `the worker answered ${reply.status}`);
  return parse(reply.body.toString());
}

const isFenced = ({ status, body }: OutboundReply): boolean => status === 409 && body.includes('"FENCED"');

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'what the worker says is not JSON');
  }
}

function checked<T>(check: (value: unknown) => T, value: unknown): T {
  try {
    return check(value);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'what the worker says does not have the agreed form');
  }
}

const isProtocolError = (error: unknown): boolean =>
  error instanceof OrchdError && error.code === 'WORKER_PROTOCOL';
