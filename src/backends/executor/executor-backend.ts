/**
 * The backend for an executor that is called over HTTP: a worker of a pool, the executor of an upstream, or a seat of a
 * gateway. The executor answers an offer with the stream of the execution's events; that stream is kept for the `follow`
 * that comes next, so that a job costs one request.
 */

import type {
  Backend,
  BackendInfo,
  ExecutionEvent,
  ExecutionStatus,
  FollowEnd,
  Inspection,
  KillHow,
  KillReply,
  Offer,
  OfferReply,
  OtherExecution,
} from '../../core/ports/backend.ts';
import { checker } from '../../kit/check.ts';
import type { Timers } from '../../kit/env/env.ts';
import { SharedCall } from '../../kit/shared-call.ts';
import { errorInfo, OrchdError } from '../../model/errors.ts';
import { scoped, uidOf } from '../../model/records.ts';
import { TRACEPARENT, traceparentOf } from '../../model/trace.ts';
import type { Commander, ExecutionList } from '../../model/worker-wire.ts';
import { CancelReply, HASH_HEADER, REGISTRY_HEADER, TOKEN_HEADER } from '../../model/worker-wire.ts';
import { commanderHeaders } from '../../wire/epochs.ts';
import type { OutboundReply, StreamReply, Target } from '../../wire/outbound.ts';
import {
  executionEnd,
  isFenced,
  isProtocolError,
  jsonOf,
  readError,
  readExecution,
  refusal,
} from './answers.ts';
import type { ExecutorProtocol } from './protocol.ts';

/** A stream from an offer that no `follow` has taken by then is closed. */
const UNREAD_STREAM_MS = 5000;

const checkCancel = checker(CancelReply);

export interface ExecutorBackendOptions {
  readonly info: BackendInfo;
  readonly protocol: ExecutorProtocol;
  readonly target: Target;
  /** The bearer token that the executor demands. */
  readonly secret: string | undefined;
  readonly timers: Timers;
}

export class ExecutorBackend implements Backend {
  readonly info: BackendInfo;
  readonly #protocol: ExecutorProtocol;
  readonly #target: Target;
  readonly #secret: string | undefined;
  readonly #timers: Timers;
  /** Streams that answered an offer and wait for their `follow`, by the token of the attempt. */
  readonly #unread = new Map<string, StreamReply>();
  /** The last commander who asked for the list of executions. */
  #lister: { readonly who: Commander; readonly list: SharedCall<ExecutionList> } | undefined;

  constructor(options: ExecutorBackendOptions) {
    this.info = options.info;
    this.#protocol = options.protocol;
    this.#target = options.target;
    this.#secret = options.secret;
    this.#timers = options.timers;
  }

  async offer(offer: Offer): Promise<OfferReply> {
    const work = workText(offer);
    if (work === undefined) {
      return {
        is: 'refused',
        error: errorInfo('INVALID_PARAMS', 'the payload of an inference is an object'),
      };
    }
    const headers = this.#headers(offer);
    headers['accept'] = 'text/event-stream';
    headers['content-type'] = 'application/json';
    headers[TOKEN_HEADER] = offer.token;
    if (offer.registry !== undefined) headers[REGISTRY_HEADER] = offer.registry;
    if (offer.ask.hash !== undefined) headers[HASH_HEADER] = offer.ask.hash;
    const traceparent = traceparentOf(uidOf(offer.ask.tenant, offer.ask.id), offer.ask, offer.attempt);
    if (traceparent !== undefined) headers[TRACEPARENT] = traceparent;
    const { path, body } = this.#protocol.offer(offer, work);
    const reply = await this.#target.stream({ method: 'POST', path, headers, body });
    if (reply.status !== 200) return refusal(await readError(reply));
    this.#keepUnread(offer.token, reply);
    return { is: 'accepted' };
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    const list = await this.#list(who);
    const known = new Map<string, ExecutionStatus>();
    const others: OtherExecution[] = [];
    const wanted = new Set(tokens);
    for (const { token, state, hash } of list.executions) {
      if (!wanted.has(token)) {
        others.push({ token, isRunning: state === 'running' });
        continue;
      }
      const status: ExecutionStatus = state === 'running' ? { is: 'running' } : await this.#ended(token, who);
      known.set(token, hash === undefined ? status : { ...status, hash });
    }
    const { registry, remembered_since: rememberedSince, opening_before: openingBefore, now } = list;
    return { registry, rememberedSince, executorNow: now, known, openingBefore, others };
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
      return await readExecution(reply, on, this.#timers);
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
    const { path, body } = this.#protocol.kill(token, how);
    const reply = await this.#request('POST', path, who, body);
    if (isFenced(reply)) return { is: 'fenced' };
    const { is, outcome, hash, registry, remembered_since, now, opening_before } = checkCancel(
      await jsonOf(reply, this.#timers),
    );
    if (is === 'tombstoned')
      return {
        is,
        registry,
        rememberedSince: remembered_since,
        executorNow: now,
        ...(opening_before && { openingBefore: opening_before }),
      };
    if (is !== 'ended') return { is };
    const end = await executionEnd(outcome, this.#timers);
    return hash === undefined ? end : { ...end, hash };
  }

  async ack(token: string, who: Commander): Promise<void> {
    await this.#request('POST', `${this.#pathOf(token)}/ack`, who);
  }

  async erase(token: string, who: Commander): Promise<void> {
    const reply = await this.#request('POST', `${this.#pathOf(token)}/erase`, who);
    // An executor of an earlier version does not know the order: it drops the text some time after the acknowledgement.
    if (reply.status === 404) return this.ack(token, who);
    if (reply.status >= 500) throw new OrchdError('WORKER_BUSY', `the executor answered ${reply.status}`);
  }

  async stop(): Promise<void> {
    this.#target.close();
  }

  /** Called when another backend object replaces this one: open streams are read to their end, no connection is kept. */
  retire(): void {
    this.#target.retire();
  }

  /** The list names all executions, so attempts that are inspected at the same time share it. */
  #list(who: Commander): Promise<ExecutionList> {
    if (!this.#lister || !isSame(this.#lister.who, who)) {
      const { listPath, readList } = this.#protocol;
      const list = new SharedCall(async () => readList(await this.#json('GET', listPath, who)));
      this.#lister = { who, list };
    }
    return this.#lister.list.ask();
  }

  async #open(token: string, from: number, who: Commander): Promise<StreamReply | undefined> {
    const path = `${this.#pathOf(token)}/events?from=${from}`;
    const reply = await this.#target.stream({ path, headers: this.#headers(who) });
    if (reply.status === 200) return reply;
    reply.close();
    return undefined;
  }

  async #ended(token: string, who: Commander): Promise<ExecutionStatus> {
    const answer = await this.#json('GET', this.#pathOf(token), who);
    const { state, outcome } = this.#protocol.readState(answer);
    if (state === 'running') return { is: 'running' };
    return executionEnd(outcome, this.#timers);
  }

  #pathOf(token: string): string {
    return `${this.#protocol.executionsPath}/${encodeURIComponent(token)}`;
  }

  async #json(method: 'GET' | 'POST', path: string, who: Commander): Promise<unknown> {
    return jsonOf(await this.#request(method, path, who), this.#timers);
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

const isSame = (a: Commander, b: Commander): boolean =>
  a.owner === b.owner && a.epoch === b.epoch && a.nonce === b.nonce;

/**
 * An ExecuteRequest as JSON: the fields of the payload, then `job_id`, `model` and `session_id`. Ours come last because
 * the last of two equal keys counts, so the caller cannot override them. Undefined if the payload is neither an object nor a text.
 */
function workText({ payloadText, ask }: Offer): string | undefined {
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
