/** The route that streams the events of a job to a client as server-sent events. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Env } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import { EventsQuery } from '../model/http/jobs.ts';
import type { RelayedEvent } from '../relay/execution-log.ts';
import type { Follower, Sink } from '../relay/follower.ts';
import { cursorOf, FROM_THE_START, type ReaderPosition } from '../runtime/following.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { openEventStream } from '../wire/event-stream.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import { type Call, type Route, route, type Stream } from '../wire/route.ts';
import { formatEvent } from '../wire/sse.ts';
import type { Disconnects } from './disconnects.ts';
import type { OpenStreams } from './open-streams.ts';
import { jobIdOf } from './tasks.ts';

export interface EventsOptions {
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly openStreams: OpenStreams;
  readonly disconnects: Disconnects;
}

/** An event of this size or more (a long result) is encoded once for all its followers instead of once for each. */
const LARGE_CHARS = 64 * 1024;

/** The encoded bytes of large events; an entry lives as long as its event is referenced. */
type LargeEvents = WeakMap<RelayedEvent, Buffer>;

/**
 * Writes the events of a follower to a connection. When the socket is full, `write` returns false and later events
 * wait in the relay's log, not here. Until the connection is attached, the sink keeps the few events that the follower
 * delivers at once, and counts as full.
 */
class ConnectionSink implements Sink {
  readonly #large: LargeEvents;
  #out: Writable | undefined;
  #early: RelayedEvent[] = [];
  #ended = false;

  constructor(large: LargeEvents) {
    this.#large = large;
  }

  attach(out: Writable): void {
    this.#out = out;
    this.write(this.#early);
    this.#early = [];
    if (this.#ended) out.end();
  }

  write(events: readonly RelayedEvent[]): boolean {
    if (this.#out) return this.#send(this.#out, events);
    this.#early.push(...events);
    return false;
  }

  end(): void {
    this.#ended = true;
    this.#out?.end();
  }

  #send(out: Writable, events: readonly RelayedEvent[]): boolean {
    let takesMore = true;
    let text = '';
    for (const event of events) {
      if (event.data.length < LARGE_CHARS) text += textOf(event);
      else {
        if (text !== '') out.write(text);
        text = '';
        takesMore = out.write(this.#bytesOf(event));
      }
    }
    return text === '' ? takesMore : out.write(text);
  }

  #bytesOf(event: RelayedEvent): Buffer {
    const known = this.#large.get(event);
    if (known) return known;
    const bytes = Buffer.from(textOf(event));
    this.#large.set(event, bytes);
    return bytes;
  }
}

const textOf = ({ id, event, data }: RelayedEvent): string =>
  formatEvent(id === undefined ? { event, data } : { id, event, data });

export class EventStreams {
  readonly #orchestrator: Orchestrator;
  readonly #options: EventsOptions;
  readonly #large: LargeEvents = new WeakMap();

  constructor(orchestrator: Orchestrator, options: EventsOptions) {
    this.#orchestrator = orchestrator;
    this.#options = options;
  }

  get route(): Route {
    return route({
      operationId: 'followJob',
      tag: 'jobs',
      method: 'GET',
      path: '/v2/tasks/:id/events',
      role: 'read',
      summary: 'Follow a job as server-sent events; Last-Event-ID resumes',
      streams: true,
      query: EventsQuery,
      answers: {
        200: {
          description: 'The stream',
          events:
            '`queued`, `started`, `token`, `metrics`, `reset`, then `end` or `error`, each with JSON as data',
        },
        204: 'The reader has received the end already',
        404: 'No such job',
        429: 'Too many streams',
      },
      handle: (call) => this.#handle(call, call.query.last_event_id),
    });
  }

  async #handle(call: Call, afterId: string | undefined): Promise<Stream | { status: 204 }> {
    const { identity } = call;
    const jobId = jobIdOf(call);
    const position = positionOf(call.headers[LAST_EVENT_ID] ?? afterId);
    const sink = new ConnectionSink(this.#large);
    const releaseStream = this.#options.openStreams.take(identity);
    try {
      // Awaited before the stream begins, so that an unknown job is answered with 404 and not inside a stream.
      const follower = await this.#orchestrator.follow(jobId, position, sink, identity.tenant);
      const onClose = (ended: boolean): void => {
        releaseStream();
        if (!ended) this.#options.disconnects.resumableReaderLeft(jobId, identity);
      };
      if (follower)
        return { stream: (...connection) => this.#stream(sink, follower, onClose, ...connection) };
    } catch (error) {
      releaseStream();
      throw error;
    }
    releaseStream();
    return { status: 204 };
  }

  #stream(
    sink: ConnectionSink,
    follower: Follower,
    onClose: (ended: boolean) => void,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    const closed = (): void => {
      const ended = follower.closed;
      follower.close();
      onClose(ended);
    };
    // The client disconnected before its stream began: no `close` event will follow.
    if (request.socket.destroyed) return closed();
    const { env, heartbeatMs } = this.#options;
    const out = openEventStream({
      request,
      response,
      timers: env.timers,
      heartbeatMs,
      onDrain: () => follower.ready(),
      onClose: closed,
    });
    sink.attach(out);
    follower.ready();
  }
}

function positionOf(lastEventId: string | readonly string[] | undefined): ReaderPosition {
  if (lastEventId === undefined || lastEventId === '') return FROM_THE_START;
  const position = typeof lastEventId === 'string' ? cursorOf(lastEventId) : undefined;
  if (position) return position;
  throw new OrchdError('INVALID_PARAMS', 'Last-Event-ID is not an event id', { field: 'Last-Event-ID' });
}
