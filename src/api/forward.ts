/**
 * A node that does not lead asks the one that does, in the name of its caller: one hop, and while nobody leads it
 * waits for a bounded time. What may be asked twice is asked again where an answer was lost.
 */
import type { Leader } from '../core/ports/leadership.ts';
import type { Env } from '../kit/env/env.ts';
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
import type { Outbound, Reply, StreamAsk, StreamReply, Target } from '../wire/outbound.ts';
import { readError } from '../wire/read-error.ts';
import { JSON_TYPE } from '../wire/respond.ts';
import type { Answer, Call, Handled, Route, Stream } from '../wire/route.ts';
import { ForwardedStream } from './forwarded-stream.ts';
import { passOn } from './passed-on.ts';

export interface ForwardParts {
  readonly env: Env;
  readonly outbound: Outbound;
  readonly secret: () => string;
  readonly leader: () => Leader | undefined;
  /** The epoch in which this node leads or takes the lead, and where it is reached. */
  readonly ownEpoch: () => number | undefined;
  readonly self: { readonly address: string };
  /** The same route of the brain of this node, while it leads. */
  readonly here: (route: Route) => Route | undefined;
  /** Resolves at the next change of who leads, or after that time. */
  readonly changed: (atMostMs: number) => Promise<void>;
  readonly holdMs: number;
  readonly heartbeatMs: number;
  readonly stopping: () => boolean;
}

/** Who leads is looked at this often while nobody answers, and while somebody is being asked. */
const NO_LEADER_POLL_MS = 250;
const LEADER_POLL_MS = 1000;
const RETRY_AFTER_MS = 2000;
/** Another node waits too: it is to hear soon that nobody leads here. */
const HOLD_FOR_NODE_MS = 1000;
/** The head of an answer comes when its job has ended, which has bounds of its own. */
const MAX_JOB_MS = 24 * 3_600_000;
/** A job is answered with its result, which may be as long as an event of a worker. */
const MAX_ANSWER_BYTES = 128 * 2 ** 20;
/** With these codes the request was certainly not executed: it may be sent to the next leader. */
const NOT_EXECUTED: ReadonlySet<unknown> = new Set<ErrorCode>(['NO_LEADER']);
/** Error codes of a node that has lost the lead, or stops: the request may have been executed. */
const MAYBE_EXECUTED: ReadonlySet<unknown> = new Set<ErrorCode>(['FENCED', 'SHUTTING_DOWN', 'STORE_FAILED']);

export class Forwarder {
  readonly #parts: ForwardParts;
  #target: { readonly address: string; readonly target: Target } | undefined;

  constructor(parts: ForwardParts) {
    this.#parts = parts;
  }

  async handle(route: Route, given: Call): Promise<Handled> {
    const { env, here, changed, holdMs, stopping } = this.#parts;
    const call = route.repeatable ? { ...given, body: route.repeatable(given) } : given;
    const until = env.clock.monotonic() + (call.identity.fromNode ? HOLD_FOR_NODE_MS : holdMs);
    let asked = false;
    for (;;) {
      const own = here(route);
      const other = call.identity.fromNode ? undefined : this.#other();
      const answer = own
        ? await this.#askHere(own, call)
        : other && (await this.#askThere(other, route, call));
      if (answer) return answer;
      asked ||= own !== undefined || other !== undefined;
      // This node may have taken the lead while it asked another.
      if (!own && here(route)) continue;
      const left = until - env.clock.monotonic();
      if (left <= 0 || stopping()) throw noLeader(asked, given, call);
      await changed(Math.min(left, NO_LEADER_POLL_MS));
    }
  }

  async #askHere(route: Route, call: Call): Promise<Handled | undefined> {
    try {
      return await route.handle(call);
    } catch (error) {
      // The brain has just been replaced: the next one knows the answer.
      if (error instanceof OrchdError && isRepeatable(route) && MAYBE_EXECUTED.has(error.code))
        return undefined;
      throw error;
    }
  }

  async #askThere(leader: Leader, route: Route, call: Call): Promise<Answer | Stream | undefined> {
    try {
      if (route.streams) return await this.#stream(leader, call);
      if (route.passedOn) return await this.#passOn(leader, route, call);
      const ask = this.#askOf(route, call);
      const target = this.#targetOf(leader);
      const reply = await this.#while(leader, (signal) =>
        target.request({ ...ask, signal, maxBytes: MAX_ANSWER_BYTES }),
      );
      return this.#answer(route, reply);
    } catch (error) {
      // Its name may mean another machine by now.
      if (wasNotSent(error)) this.#drop();
      if (!(error instanceof OrchdError) || wasNotSent(error) || isRepeatable(route)) return undefined;
      throw new OrchdError(
        'NO_LEADER',
        'the leader went away while it was asked: look whether it has happened before you ask again',
        { retryAfterMs: RETRY_AFTER_MS },
      );
    }
  }

  #answer(route: Repeats, reply: Reply): Answer | undefined {
    const content = reply.body.toString('utf8');
    const code = reply.status >= 400 ? readError(content)?.code : undefined;
    if (NOT_EXECUTED.has(code) || (isRepeatable(route) && MAYBE_EXECUTED.has(code))) return undefined;
    const headers = pickHeaders(reply.headers, ANSWER_HEADERS);
    const type = reply.headers['content-type'] ?? JSON_TYPE;
    return content === ''
      ? { status: reply.status, headers }
      : { status: reply.status, headers, text: { type, content } };
  }

  async #stream(leader: Leader, call: Call): Promise<Answer | Stream | undefined> {
    const lastId = call.headers[LAST_EVENT_ID];
    const reply = await this.#open(leader, call, typeof lastId === 'string' ? lastId : undefined);
    if (reply.status !== 200) return this.#answer(STREAM, await whole(reply));
    const { env, heartbeatMs, changed } = this.#parts;
    const stream = new ForwardedStream({
      timers: env.timers,
      heartbeatMs,
      first: reply,
      lastId: typeof lastId === 'string' ? lastId : undefined,
      // This node itself, where it leads by then: it is asked like any other.
      again: async (id) => {
        const now = this.#parts.leader();
        return now ? this.#open(now, call, id) : undefined;
      },
      pause: () => changed(NO_LEADER_POLL_MS),
    });
    return { stream: (request, response) => stream.run(request, response) };
  }

  async #passOn(leader: Leader, route: Route, call: Call): Promise<Answer | Stream | undefined> {
    const ask = this.#askOf(route, call);
    const headers = { ...ask.headers, ...pickHeaders(call.headers, JOB_OPTION_HEADERS) };
    const reply = await this.#openAt(leader, { ...ask, headers, timeoutMs: MAX_JOB_MS }, call.onGone);
    if (reply.status !== 200) return this.#answer(route, await whole(reply));
    return { stream: (request, response) => passOn(reply, call.correlationId, request, response) };
  }

  /** Who leads, where that is not this node. */
  #other(): Leader | undefined {
    const { leader, self, ownEpoch } = this.#parts;
    const found = leader();
    // Another node that gives our address as its own cannot be reached by it.
    return found?.epoch === ownEpoch() || found?.address === self.address ? undefined : found;
  }

  async #open(leader: Leader, call: Call, lastId: string | undefined): Promise<StreamReply> {
    const ask = this.#askOf(STREAM, call);
    const headers = { ...ask.headers, ...(lastId !== undefined && { [LAST_EVENT_ID]: lastId }) };
    return this.#openAt(leader, { ...ask, headers });
  }

  async #openAt(leader: Leader, ask: StreamAsk, onGone?: Call['onGone']): Promise<StreamReply> {
    const idleMs = 3 * this.#parts.heartbeatMs;
    const target = this.#targetOf(leader);
    const reply = await this.#while(leader, (signal, abort) => {
      onGone?.(abort);
      return target.stream({ ...ask, idleMs, signal });
    });
    const read: StreamReply['read'] = (on) =>
      this.#while(leader, (signal) => {
        signal.addEventListener('abort', () => reply.close());
        return reply.read(on);
      });
    return { ...reply, read };
  }

  /** A leader that is replaced is not waited for: it may be stopped, and never answer. */
  async #while<T>(leader: Leader, run: (signal: AbortSignal, abort: () => void) => Promise<T>): Promise<T> {
    const abort = new AbortController();
    let done = false;
    const watch = async (): Promise<void> => {
      while (!done && this.#parts.leader()?.epoch === leader.epoch) await this.#parts.changed(LEADER_POLL_MS);
      if (!done) abort.abort();
    };
    void watch();
    try {
      return await run(abort.signal, () => abort.abort());
    } finally {
      done = true;
    }
  }

  #drop(): void {
    this.#target?.target.close();
    this.#target = undefined;
  }

  #askOf(route: Repeats, call: Call) {
    const { body } = call;
    return {
      method: route.method,
      path: call.url,
      headers: {
        ...nodeHeaders(this.#parts.secret(), call.identity),
        [CORRELATION_ID]: call.correlationId,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
  }

  /** One at a time: connections to a former leader are of no use. */
  #targetOf({ address }: Leader): Target {
    if (this.#target?.address === address) return this.#target.target;
    this.#drop();
    this.#target = { address, target: this.#parts.outbound.to(address) };
    return this.#target.target;
  }
}

/** A submit that may have been heard is safe to repeat by the id that was given to it. */
function noLeader(asked: boolean, given: Call, sent: Call): OrchdError {
  const { job_id } = (sent.body ?? {}) as { job_id?: unknown };
  const isOurs =
    asked && typeof job_id === 'string' && (given.body as { job_id?: unknown }).job_id === undefined;
  const message = isOurs
    ? `no node leads now; ask again with "job_id": "${job_id}", it may be taken already`
    : undefined;
  return new OrchdError('NO_LEADER', message, {
    retryAfterMs: RETRY_AFTER_MS,
    ...(isOurs && { jobId: job_id }),
  });
}

const STREAM: Repeats = { method: 'GET' };

type Repeats = Pick<Route, 'method' | 'repeatable'>;

const isRepeatable = (route: Repeats): boolean => route.method === 'GET' || route.repeatable !== undefined;

/** Answers to a request for a stream that are none are short. */
async function whole(reply: StreamReply): Promise<Reply> {
  const pieces: Buffer[] = [];
  await reply.read((piece) => pieces.push(piece));
  return { status: reply.status, headers: reply.headers, body: Buffer.concat(pieces) };
}
