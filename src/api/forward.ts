/**
 * Forwards requests from a node that does not lead to the leader, in the name of the caller. There is one hop at most:
 * a request that came from another node is not forwarded again. While there is no leader the request waits, at most
 * `holdMs`. A repeatable request is sent again if its answer was lost.
 */
import type { Leader } from '../core/ports/leadership.ts';
import type { Env } from '../kit/env/env.ts';
import { textInSlices } from '../kit/json-writer.ts';
import { inSlices, ONE_TURN_BYTES } from '../kit/slices.ts';
import { type ErrorCode, OrchdError } from '../model/errors.ts';
import { wasNotSent } from '../wire/exchange.ts';
import {
  ANSWER_HEADERS,
  CORRELATION_ID,
  JOB_OPTION_HEADERS,
  LAST_EVENT_ID,
  pickHeaders,
} from '../wire/headers.ts';
import { nodeHeaders } from '../wire/nodes.ts';
import type {
  Outbound,
  OutboundReply,
  OutboundStreamRequest,
  StreamReply,
  Target,
} from '../wire/outbound.ts';
import { readError } from '../wire/read-error.ts';
import { JSON_TYPE } from '../wire/respond.ts';
import type { Answer, Call, HandlerResult, Route, Stream } from '../wire/route.ts';
import { ForwardedStream } from './forwarded-stream.ts';
import { proxyAnswer } from './proxied-answer.ts';

export interface ForwardParts {
  readonly env: Env;
  readonly outbound: Outbound;
  readonly secret: () => string;
  readonly leader: () => Leader | undefined;
  /** The epoch in which this node leads or is taking the lead. */
  readonly ownEpoch: () => number | undefined;
  /** The address under which other nodes reach this one. */
  readonly self: { readonly address: string };
  /** The same route, served by the brain of this node; undefined unless this node leads. */
  readonly localRoute: (route: Route) => Route | undefined;
  /** Resolves at the next change of leader, or after `atMostMs`. */
  readonly leaderChanged: (atMostMs: number) => Promise<void>;
  /** How long a request waits for a leader. */
  readonly holdMs: number;
  readonly heartbeatMs: number;
  readonly isStopping: () => boolean;
}

/** How often the leader is looked up while there is none. */
const NO_LEADER_POLL_MS = 250;
/** How often a request in flight checks that the node it was sent to still leads. */
const LEADER_POLL_MS = 1000;
const RETRY_AFTER_MS = 2000;
/** Replaces `holdMs` for a request that another node forwarded: that node holds the request itself. */
const HOLD_FOR_NODE_MS = 1000;
/** Timeout for the head of a proxied answer, which is sent only when the job has ended; jobs have their own limits. */
const MAX_JOB_MS = 24 * 3_600_000;
/** Limit of a forwarded answer: the answer for a job contains its result, which may be as long as a worker's event. */
const MAX_ANSWER_BYTES = 128 * 2 ** 20;
/** With these error codes the request was certainly not executed: it may be sent to the next leader. */
const NOT_EXECUTED: ReadonlySet<unknown> = new Set<ErrorCode>(['NO_LEADER']);
/** Error codes of a node that has lost the lead or is stopping: the request may have been executed. */
const MAYBE_EXECUTED: ReadonlySet<unknown> = new Set<ErrorCode>(['FENCED', 'SHUTTING_DOWN', 'STORE_FAILED']);

export class Forwarder {
  readonly #parts: ForwardParts;
  #target: { readonly address: string; readonly target: Target } | undefined;

  constructor(parts: ForwardParts) {
    this.#parts = parts;
  }

  async handle(route: Route, given: Call): Promise<HandlerResult> {
    const { env, localRoute, leaderChanged, holdMs, isStopping } = this.#parts;
    const call = route.repeatable ? { ...given, body: route.repeatable(given) } : given;
    const until = env.clock.monotonic() + (call.identity.fromNode ? HOLD_FOR_NODE_MS : holdMs);
    let wasSent = false;
    for (;;) {
      const local = localRoute(route);
      const remote = call.identity.fromNode ? undefined : this.#remoteLeader();
      const answer = local
        ? await this.#handleLocally(local, call)
        : remote && (await this.#sendToLeader(remote, route, call));
      if (answer) return answer;
      wasSent ||= local !== undefined || remote !== undefined;
      // This node may have taken the lead while it waited for another.
      if (!local && localRoute(route)) continue;
      const left = until - env.clock.monotonic();
      if (left <= 0 || isStopping()) throw noLeader(wasSent, given, call);
      await leaderChanged(Math.min(left, NO_LEADER_POLL_MS));
    }
  }

  async #handleLocally(route: Route, call: Call): Promise<HandlerResult | undefined> {
    try {
      return await route.handle(call);
    } catch (error) {
      if (!(error instanceof OrchdError) || !MAYBE_EXECUTED.has(error.code)) throw error;
      // The brain of this node was just replaced: the request is repeated at the next one.
      if (isRepeatable(route)) return undefined;
      // The node that forwarded the request tells its caller.
      throw call.identity.fromNode ? error : leaderLost();
    }
  }

  async #sendToLeader(leader: Leader, route: Route, call: Call): Promise<Answer | Stream | undefined> {
    try {
      if (route.streams) return await this.#stream(leader, call);
      if (route.isProxied) return await this.#proxyAnswer(leader, route, call);
      const request = await this.#requestOf(route, call);
      const target = this.#targetOf(leader);
      const reply = await this.#whileLeading(leader, (signal) =>
        target.request({ ...request, signal, maxBytes: MAX_ANSWER_BYTES }),
      );
      return this.#answer(route, reply);
    } catch (error) {
      // The leader's host name may resolve to another machine by now: a new target resolves it again.
      if (wasNotSent(error)) this.#closeTarget();
      if (!(error instanceof OrchdError) || wasNotSent(error) || isRepeatable(route)) return undefined;
      throw leaderLost();
    }
  }

  #answer(route: RepeatRule, reply: OutboundReply): Answer | undefined {
    const content = reply.body;
    const code = reply.status >= 400 ? readError(content.toString())?.code : undefined;
    if (NOT_EXECUTED.has(code) || (isRepeatable(route) && MAYBE_EXECUTED.has(code))) return undefined;
    if (MAYBE_EXECUTED.has(code)) throw leaderLost();
    const headers = pickHeaders(reply.headers, ANSWER_HEADERS);
    const type = reply.headers['content-type'] ?? JSON_TYPE;
    return content.length === 0
      ? { status: reply.status, headers }
      : { status: reply.status, headers, text: { type, content } };
  }

  async #stream(leader: Leader, call: Call): Promise<Answer | Stream | undefined> {
    const lastEventId = call.headers[LAST_EVENT_ID];
    const reply = await this.#openEvents(
      leader,
      call,
      typeof lastEventId === 'string' ? lastEventId : undefined,
    );
    if (reply.status !== 200) return this.#answer(STREAM, await readWhole(reply));
    const { env, heartbeatMs, leaderChanged } = this.#parts;
    const stream = new ForwardedStream({
      timers: env.timers,
      heartbeatMs,
      first: reply,
      lastEventId: typeof lastEventId === 'string' ? lastEventId : undefined,
      // If this node leads by then, it sends the request to itself like to any other leader.
      reopen: async (id) => {
        const now = this.#parts.leader();
        return now ? this.#openEvents(now, call, id) : undefined;
      },
      pause: () => leaderChanged(NO_LEADER_POLL_MS),
    });
    return { stream: (request, response) => stream.run(request, response) };
  }

  async #proxyAnswer(leader: Leader, route: Route, call: Call): Promise<Answer | Stream | undefined> {
    const request = await this.#requestOf(route, call);
    const headers = { ...request.headers, ...pickHeaders(call.headers, JOB_OPTION_HEADERS) };
    const reply = await this.#openStream(
      leader,
      { ...request, headers, timeoutMs: MAX_JOB_MS },
      call.onDisconnect,
    );
    if (reply.status !== 200) return this.#answer(route, await readWhole(reply));
    return { stream: (request, response) => proxyAnswer(reply, call.correlationId, request, response) };
  }

  /** The leader, unless it is this node. */
  #remoteLeader(): Leader | undefined {
    const { leader, self, ownEpoch } = this.#parts;
    const found = leader();
    // A leader that advertises this node's address cannot be reached: the request would come back here.
    return found?.epoch === ownEpoch() || found?.address === self.address ? undefined : found;
  }

  async #openEvents(leader: Leader, call: Call, lastEventId: string | undefined): Promise<StreamReply> {
    const request = await this.#requestOf(STREAM, call);
    const headers = {
      ...request.headers,
      ...(lastEventId !== undefined && { [LAST_EVENT_ID]: lastEventId }),
    };
    return this.#openStream(leader, { ...request, headers });
  }

  async #openStream(
    leader: Leader,
    request: OutboundStreamRequest,
    onDisconnect?: Call['onDisconnect'],
  ): Promise<StreamReply> {
    const idleMs = 3 * this.#parts.heartbeatMs;
    const target = this.#targetOf(leader);
    const reply = await this.#whileLeading(leader, (signal, abort) => {
      onDisconnect?.(abort);
      return target.stream({ ...request, idleMs, signal });
    });
    const read: StreamReply['read'] = (on) =>
      this.#whileLeading(leader, (signal) => {
        signal.addEventListener('abort', () => reply.close());
        return reply.read(on);
      });
    return { ...reply, read };
  }

  /** Aborts the exchange once another node leads: a replaced leader may be suspended and never answer. */
  async #whileLeading<T>(
    leader: Leader,
    run: (signal: AbortSignal, abort: () => void) => Promise<T>,
  ): Promise<T> {
    const abort = new AbortController();
    let done = false;
    const watch = async (): Promise<void> => {
      while (!done && this.#parts.leader()?.epoch === leader.epoch)
        await this.#parts.leaderChanged(LEADER_POLL_MS);
      if (!done) abort.abort();
    };
    void watch();
    try {
      return await run(abort.signal, () => abort.abort());
    } finally {
      done = true;
    }
  }

  #closeTarget(): void {
    this.#target?.target.close();
    this.#target = undefined;
  }

  async #requestOf(route: RepeatRule, call: Call) {
    const { body, bodyBytes } = call;
    const text =
      bodyBytes <= ONE_TURN_BYTES
        ? JSON.stringify(body)
        : await inSlices(textInSlices(body), this.#parts.env.timers);
    return {
      method: route.method,
      path: call.url,
      headers: {
        ...nodeHeaders(this.#parts.secret(), call.identity),
        [CORRELATION_ID]: call.correlationId,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: text }),
    };
  }

  /** Keeps connections to the current leader only. */
  #targetOf({ address }: Leader): Target {
    if (this.#target?.address === address) return this.#target.target;
    this.#closeTarget();
    this.#target = { address, target: this.#parts.outbound.to(address) };
    return this.#target.target;
  }
}

/** For a request that must not be repeated unasked: a change of leader is over soon, so that it may be sent again. */
const leaderLost = (): OrchdError =>
  new OrchdError(
    'NO_LEADER',
    'the leader was lost while it handled the request: check whether it took effect before you repeat it',
    { retryAfterMs: RETRY_AFTER_MS },
  );

/** Names the job id that this node gave to a submit that was sent but not answered: repeating it with the id is safe. */
function noLeader(wasSent: boolean, given: Call, sent: Call): OrchdError {
  const { job_id } = (sent.body ?? {}) as { job_id?: unknown };
  const isOurs =
    wasSent && typeof job_id === 'string' && (given.body as { job_id?: unknown }).job_id === undefined;
  const message = isOurs
    ? `there is no leader now; repeat the request with "job_id": "${job_id}", it may have been accepted already`
    : undefined;
  return new OrchdError('NO_LEADER', message, {
    retryAfterMs: RETRY_AFTER_MS,
    ...(isOurs && { jobId: job_id }),
  });
}

const STREAM: RepeatRule = { method: 'GET' };

type RepeatRule = Pick<Route, 'method' | 'repeatable'>;

const isRepeatable = (route: RepeatRule): boolean => route.method === 'GET' || route.repeatable !== undefined;

/** Reads an answer that is not a stream; without a limit, since errors and 204 are short. */
async function readWhole(reply: StreamReply): Promise<OutboundReply> {
  const pieces: Buffer[] = [];
  await reply.read((piece) => pieces.push(piece));
  return { status: reply.status, headers: reply.headers, body: Buffer.concat(pieces) };
}
