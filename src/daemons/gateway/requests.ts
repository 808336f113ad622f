/** The immediate requests: who calls, whether the seat takes it now, and what is known of it afterwards. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import {
  type ActiveRequests,
  type BusyView,
  PLAIN_OWNER,
  QUEUE_OWNER,
  type RequestState,
  type SubmitImmediate,
} from '../../model/gateway-wire.ts';
import { heard, messagesOf } from '../../model/heard.ts';
import { traceparentIn } from '../../model/trace.ts';
import {
  type CancelReply,
  type Commander,
  HASH_HEADER,
  OWNER_HEADER,
  REGISTRY_HEADER,
} from '../../model/worker-wire.ts';
import type { Execution } from '../execution/execution.ts';
import type { Executions } from '../execution/executions.ts';
import { readInferenceRequest } from '../execution/inference-request.ts';
import type { KeptEpochs } from '../execution/kept-epochs.ts';
import type { TokenMemory, TokenRecord } from '../execution/token-memory.ts';
import type { BackgroundQueue } from './background-queue.ts';
import { bodyOf, callRecord } from './request-body.ts';
import type { Seats } from './seats.ts';

export interface RequestsOptions {
  readonly clock: Clock;
  readonly memory: TokenMemory;
  readonly epochs: KeptEpochs;
  readonly executions: Executions;
  readonly seats: Seats;
  readonly queue: BackgroundQueue;
}

/** A caller that is no brain has no epochs. */
const PLAIN: Commander = { owner: PLAIN_OWNER, epoch: 0 };
const OWN_NAMES: ReadonlySet<unknown> = new Set([PLAIN_OWNER, QUEUE_OWNER]);
const TOKEN = /^[!-~]{1,300}$/;
const MAX_JOB_ID_CHARS = 256;

export class Requests {
  readonly #options: RequestsOptions;

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  /** Who calls; throws FENCED for a brain that was replaced. */
  async callerOf(headers: IncomingHttpHeaders): Promise<Commander> {
    const owner = headers[OWNER_HEADER];
    if (owner === undefined) return PLAIN;
    if (OWN_NAMES.has(owner)) throw new OrchdError('FORBIDDEN', `"${owner}" is no name for an owner`);
    return this.#options.epochs.check(headers);
  }

  /** The request of a token, which is begun now or was before. Settles when it is durable; throws WORKER_BUSY. */
  async submit(body: SubmitImmediate, headers: IncomingHttpHeaders): Promise<Execution> {
    const { memory, executions, seats, queue } = this.#options;
    const who = await this.callerOf(headers);
    const token = checkToken(body.idempotency_token);
    const { owner } = who;
    const known = memory.find(owner, token);
    // A token that is known is answered also if its seat is gone.
    const seat = known ? seats.find(body.backend) : seats.get(body.backend);
    const jobId = body.job_id ?? token.slice(0, MAX_JOB_ID_CHARS);
    const work = bodyOf({ payload: body.payload, jobId, threadId: body.thread_id });
    // In a thread that the payload names, more may have been said than the caller tells.
    const { thread_id: named = null } = work as { readonly thread_id?: unknown };
    const before = named === null ? body.heard : undefined;
    const timeoutMs = Math.min(body.timeout_ms ?? Number.MAX_VALUE, seats.order?.timeout_ms ?? 1);
    try {
      const execution = executions.begin({
        who,
        token,
        registry: textOf(headers[REGISTRY_HEADER]),
        hash: textOf(headers[HASH_HEADER]),
        request: { ...readInferenceRequest(work, 'any'), heard: before },
        traceparent: traceparentIn(headers),
        call:
          seat && !known
            ? callRecord({
                seat: seat.order,
                owner,
                token,
                model: work.model,
                timeoutMs,
                heard: before && heard(before, messagesOf(work)),
              })
            : undefined,
      });
      await memory.pending(owner, token);
      return execution;
    } catch (error) {
      const isOccupied = error instanceof OrchdError && error.details.reason === 'occupied';
      if (isOccupied && (body.preempt === true || seat?.order.preempt === true))
        void queue.preempt(body.backend);
      throw error;
    }
  }

  async busy(name: string, headers: IncomingHttpHeaders): Promise<BusyView> {
    const { seats, clock } = this.#options;
    const { owner } = await this.callerOf(headers);
    const seat = seats.get(name);
    const now = clock.monotonic();
    const verdict = seats.verdict(seat, { owner }, now);
    return {
      busy: verdict.is === 'busy',
      ...(verdict.is === 'busy' && { reason: verdict.reason, retry_after_ms: verdict.retryAfterMs }),
      high_priority_pending: seat.hasReservation(now),
    };
  }

  async active(headers: IncomingHttpHeaders): Promise<ActiveRequests> {
    const { memory } = this.#options;
    const { owner } = await this.callerOf(headers);
    const requests = memory.list(owner).map(({ token, at, record }) => {
      const execution = record.is === 'execution' ? record.execution : undefined;
      return {
        request_id: token,
        idempotency_token: token,
        job_id: jobOf(record),
        backend: execution?.call?.seat ?? '',
        state: stateOf(record),
        started_at: execution?.begunAt ?? at,
        ...(execution?.hash !== undefined && { hash: execution.hash }),
        ...(execution?.upstreamId !== undefined && { upstream_id: execution.upstreamId }),
      };
    });
    return { ...this.#memoryOf(owner), requests };
  }

  async state(id: string, headers: IncomingHttpHeaders): Promise<RequestState> {
    const { owner } = await this.callerOf(headers);
    const record = this.#find(owner, checkToken(id));
    const execution = record.is === 'execution' ? record.execution : undefined;
    return {
      request_id: id,
      job_id: jobOf(record),
      backend: execution?.call?.seat ?? '',
      state: stateOf(record),
      ...(execution?.outcome && { outcome: execution.outcome }),
    };
  }

  /** The execution whose events can be read. */
  async readable(id: string, headers: IncomingHttpHeaders): Promise<Execution> {
    const { owner } = await this.callerOf(headers);
    const token = checkToken(id);
    const execution = this.#options.memory.readable(owner, token);
    if (execution) return execution;
    this.#find(owner, token);
    throw new OrchdError('UNKNOWN_OUTCOME', 'this request has run here; its events are gone');
  }

  async kill(id: string, how: 'end' | 'bury', headers: IncomingHttpHeaders): Promise<CancelReply> {
    const { memory, executions } = this.#options;
    const who = await this.callerOf(headers);
    const token = checkToken(id);
    const reply = executions.cancel(who, token, how);
    await memory.pending(who.owner, token);
    return { ...this.#memoryOf(who.owner), ...reply };
  }

  async acknowledge(id: string, headers: IncomingHttpHeaders): Promise<void> {
    const who = await this.callerOf(headers);
    this.#options.executions.acknowledge(who, checkToken(id));
  }

  async erase(id: string, headers: IncomingHttpHeaders): Promise<void> {
    const who = await this.callerOf(headers);
    await this.#options.executions.erase(who, checkToken(id));
  }

  #find(owner: string, token: string): Exclude<TokenRecord, { readonly is: 'tombstone' }> {
    const record = this.#options.memory.find(owner, token);
    if (record && record.is !== 'tombstone') return record;
    throw new OrchdError('NOT_FOUND', 'there is no request with this id');
  }

  #memoryOf(owner: string): Pick<ActiveRequests, 'registry' | 'remembered_since' | 'now' | 'opening_before'> {
    const { memory, epochs } = this.#options;
    const { epoch, nonce } = epochs.openingBefore(owner) ?? {};
    return {
      registry: memory.registry,
      remembered_since: memory.rememberedSince,
      now: memory.now,
      ...(epoch !== undefined && { opening_before: { epoch, ...(nonce !== undefined && { nonce }) } }),
    };
  }
}

const stateOf = (record: TokenRecord): 'running' | 'ended' =>
  record.is === 'execution' && !record.execution.outcome ? 'running' : 'ended';

function jobOf(record: TokenRecord): string {
  if (record.is === 'execution') return record.execution.jobId;
  return record.is === 'forgotten' ? record.jobId : '';
}

const textOf = (header: string | string[] | undefined): string | undefined =>
  typeof header === 'string' ? header : undefined;

function checkToken(token: string): string {
  if (TOKEN.test(token)) return token;
  throw new OrchdError('INVALID_PARAMS', 'the token is malformed: it has up to 300 printable characters', {
    field: 'idempotency_token',
  });
}
