/**
 * Forwards requests from a node that does not lead to the leader, in the name of the caller. There is one hop at most:
 * a request that came from another node is not forwarded again. While there is no leader the request waits, at most
 * `holdMs`. A repeatable request is sent again if its answer was lost.
 */
import type { Leader } from '../core/ports/leadership.ts';
import type { Cancel, Env } from '../kit/env/env.ts';
import { textInSlices } from '../kit/json-writer.ts';
import { inSlices } from '../kit/slices.ts';
import { type ErrorCode, OrchdError } from '../model/errors.ts';
import { TRACEPARENT } from '../model/trace.ts';
import { wasNotSent } from '../wire/exchange.ts';
import {
  ANSWER_HEADERS,
  CORRELATION_ID,
  JOB_OPTION_HEADERS,
  LAST_EVENT_ID,
  MCP_HEADERS,
  pickHeaders,
} from '../wire/headers.ts';
import { nodeHeaders } from '../wire/nodes.ts';
import {
  OUTBOUND_LIMITS,
  type Outbound,
  type OutboundReply,
  type OutboundStreamRequest,
  type StreamReply,
  type Target,
} from '../wire/outbound.ts';
import { readError } from '../wire/read-error.ts';
import { JSON_TYPE } from '../wire/respond.ts';
import type { Answer, Call, HandlerResult, Route, Stream } from '../wire/route.ts';
import { ForwardedStream } from './forwarded-stream.ts';
import { HopWatch } from './hop-watch.ts';
import { leaderLost, noLeader } from './no-leader.ts';
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
/** Replaces `holdMs` for a request that another node forwarded: that node holds the request itself. */
const HOLD_FOR_NODE_MS = 1000;
/** The time that a leader has for an answer, where a request was sent to it near the end of its hold. */
const MIN_ANSWER_MS = 5000;
/**
 * Timeout for the head of a proxied answer that is sent only when the job has ended; jobs have their own limits, and
 * HopWatch notices a leader that is silent.
 */
const MAX_JOB_MS = 24 * 3_600_000;
/** Limit of a forwarded answer: the answer for a job contains its result, which may be as long as a worker's event. */
const MAX_ANSWER_BYTES = 128 * 2 ** 20;
/** With these error codes the request was certainly not executed: it may be sent to the next leader. */
const NOT_EXECUTED: ReadonlySet<unknown> = new Set<ErrorCode>(['NO_LEADER', 'REQUEST_TIMEOUT']);
/** Error codes of a node that has lost the lead or is stopping: the request may have been executed. */
const MAYBE_EXECUTED: ReadonlySet<unknown> = new Set<ErrorCode>(['FENCED', 'SHUTTING_DOWN', 'STORE_FAILED']);

export class Forwarder {
  readonly #parts: ForwardParts;
  #hop: Hop | undefined;

  constructor(parts: ForwardParts) {
    this.#parts = parts;
  }

  async handle(route: Route, given: Call): Promise<HandlerResult> {
    const { env, localRoute, leaderChanged, holdMs, isStopping } = this.#parts;
    const body = route.repeatable ? route.repeatable(given) : given.body;
    const call = { ...given, body, onDisconnect: latestOnly(given.onDisconnect) };
    const until = env.clock.monotonic() + (call.identity.fromNode ? HOLD_FOR_NODE_MS : holdMs);
    let wasSent = false;
    for (;;) {
      const local = localRoute(route);
      const remote = call.identity.fromNode ? undefined : this.#remoteLeader();
      const answer = local
        ? await this.#handleLocally(local, call)
        : remote && (await this.#sendToLeader(remote, route, call, until));
      if (answer) return answer;
      wasSent ||= local !== undefined || remote !== undefined;
      // This node may have taken the lead while it waited for another.
      if (!local && localRoute(route)) continue;
      const left = until - env.clock.monotonic();
      if (left <= 0 || isStopping()) throw noLeader(given.body, wasSent ? call.body : undefined);
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

  /** The answer has to begin before the hold ends at `until`, unless it takes as long as a job. */
  async #sendToLeader(
    leader: Leader,
    route: Route,
    call: Call,
    until: number,
  ): Promise<Answer | Stream | undefined> {
    const restMs = until - this.#parts.env.clock.monotonic();
    const timeoutMs = Math.min(OUTBOUND_LIMITS.timeoutMs, Math.max(MIN_ANSWER_MS, restMs));
    try {
      if (route.streams) return await this.#stream(leader, call, timeoutMs);
      if (route.isProxied) return await this.#proxyAnswer(leader, route, call, timeoutMs);
      const request = await this.#requestOf(route, call);
      const { target } = this.#hopTo(leader);
      const reply = await this.#whileLeading(leader, (signal) =>
        target.request({ ...request, signal, timeoutMs, idleMs: timeoutMs, maxBytes: MAX_ANSWER_BYTES }),
      );
      return this.#answer(route, reply);
    } catch (error) {
      // The leader's host name may resolve to another machine by now: a new target resolves it again.
      if (wasNotSent(error)) this.#closeHop();
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

  async #stream(leader: Leader, call: Call, timeoutMs: number): Promise<Answer | Stream | undefined> {
    const given = call.headers[LAST_EVENT_ID];
    const lastEventId = typeof given === 'string' ? given : undefined;
    const reply = await this.#openEvents(leader, call, lastEventId, timeoutMs);
    if (reply.status !== 200) return this.#answer(STREAM, await readWhole(reply));
    const { env, heartbeatMs, leaderChanged } = this.#parts;
    const stream = new ForwardedStream({
      timers: env.timers,
      heartbeatMs,
      first: reply,
      lastEventId,
      // If this node leads by then, it sends the request to itself like to any other leader.
      reopen: async (id) => {
        const now = this.#parts.leader();
        return now ? this.#openEvents(now, call, id, timeoutMs) : undefined;
      },
      pause: () => leaderChanged(NO_LEADER_POLL_MS),
    });
    return { stream: (request, response) => stream.run(request, response) };
  }

  async #proxyAnswer(
    leader: Leader,
    route: Route,
    call: Call,
    headMs: number,
  ): Promise<Answer | Stream | undefined> {
    const request = await this.#requestOf(route, call);
    const passedOn = pickHeaders(call.headers, [...JOB_OPTION_HEADERS, ...MCP_HEADERS]);
    const headers = { ...request.headers, ...passedOn };
    const takesAJob = !isStreamed(call.body);
    const timeoutMs = takesAJob ? MAX_JOB_MS : headMs;
    const reply = await this.#openStream(leader, { ...request, headers, timeoutMs }, (abort) => {
      call.onDisconnect(abort);
      return takesAJob ? this.#hopTo(leader).watch.add(abort) : undefined;
    });
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

  async #openEvents(
    leader: Leader,
    call: Call,
    lastEventId: string | undefined,
    timeoutMs: number,
  ): Promise<StreamReply> {
    const request = await this.#requestOf(STREAM, call);
    const headers = {
      ...request.headers,
      ...(lastEventId !== undefined && { [LAST_EVENT_ID]: lastEventId }),
    };
    return this.#openStream(leader, { ...request, headers, timeoutMs });
  }

  async #openStream(
    leader: Leader,
    request: OutboundStreamRequest,
    /** Gets the function that ends the wait for the head; what it returns is called when the head has arrived. */
    whileWaiting?: (abort: () => void) => Cancel | undefined,
  ): Promise<StreamReply> {
    const idleMs = 3 * this.#parts.heartbeatMs;
    const { target } = this.#hopTo(leader);
    const reply = await this.#whileLeading(leader, (signal, abort) => {
      const endWait = whileWaiting?.(abort);
      return target.stream({ ...request, idleMs, signal }).finally(endWait);
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

  #closeHop(): void {
    this.#hop?.target.close();
    this.#hop = undefined;
  }

  async #requestOf(route: RepeatRule, call: Call) {
    const { body, bodySize } = call;
    const text =
      bodySize === 'small'
        ? JSON.stringify(body)
        : await inSlices(textInSlices(body), this.#parts.env.timers);
    return {
      method: route.method,
      path: call.url,
      headers: {
        ...nodeHeaders(this.#parts.secret(), call.identity),
        [CORRELATION_ID]: call.correlationId,
        ...pickHeaders(call.headers, [TRACEPARENT]),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: text }),
    };
  }

  /** Keeps connections to the current leader only. */
  #hopTo({ address }: Leader): Hop {
    if (this.#hop?.address === address) return this.#hop;
    this.#closeHop();
    const { env, outbound, heartbeatMs } = this.#parts;
    const target = outbound.to(address);
    // A question that is not answered takes two intervals: a leader that is silent is given up after 3 heartbeats.
    const watch = new HopWatch({ timers: env.timers, target, intervalMs: heartbeatMs / 2 });
    this.#hop = { address, target, watch };
    return this.#hop;
  }
}

/** The connections from this node to the leader. */
interface Hop {
  readonly address: string;
  readonly target: Target;
  readonly watch: HopWatch;
}

/**
 * Only the callback that was registered last is called: each time a request is sent it registers one, and the earlier
 * ones have nothing left to abort. So a connection has one listener, however often its request is sent.
 */
function latestOnly(onDisconnect: Call['onDisconnect']): Call['onDisconnect'] {
  let latest: (() => void) | undefined;
  let isGone = false;
  return (run) => {
    const isFirst = latest === undefined;
    latest = run;
    if (isGone) run();
    else if (isFirst)
      onDisconnect(() => {
        isGone = true;
        latest?.();
      });
  };
}

/** Whether a proxied answer is an event stream: its head is sent as soon as the job is admitted. */
const isStreamed = (body: unknown): boolean =>
  (body as { readonly stream?: unknown } | null | undefined)?.stream === true;

const STREAM: RepeatRule = { method: 'GET' };

type RepeatRule = Pick<Route, 'method' | 'repeatable'>;

const isRepeatable = (route: RepeatRule): boolean => route.method === 'GET' || route.repeatable !== undefined;

/** Reads an answer that is not a stream; without a limit, since errors and 204 are short. */
async function readWhole(reply: StreamReply): Promise<OutboundReply> {
  const pieces: Buffer[] = [];
  await reply.read((piece) => pieces.push(piece));
  return { status: reply.status, headers: reply.headers, body: Buffer.concat(pieces) };
}
