/** The route that streams the events of a job to a client as server-sent events. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Env } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import { EventsQuery } from '../model/http/jobs.ts';
import type { Follower } from '../relay/follower.ts';
import { cursorOf, FROM_THE_START, type ReaderPosition } from '../runtime/following.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { openEventStream } from '../wire/event-stream.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import { type Call, type Route, route, type Stream } from '../wire/route.ts';
import { ConnectionSink, type EncodedEvents } from './connection-sink.ts';
import type { Disconnects } from './disconnects.ts';
import type { OpenStreams } from './open-streams.ts';
import { jobIdOf } from './tasks.ts';

export interface EventsOptions {
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly openStreams: OpenStreams;
  readonly disconnects: Disconnects;
}

export class EventStreams {
  readonly #orchestrator: Orchestrator;
  readonly #options: EventsOptions;
  readonly #encoded: EncodedEvents = new WeakMap();

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
            '`queued`, `paused` (it starts nothing), `resumed`, `waiting` (the job waits for the `jobs` that it names), `stale` (its outcome is unknown), `started`, `token`, `metrics`, `reset`, then `end` or `error`, each with JSON as data',
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
    const sink = new ConnectionSink(this.#encoded, this.#options.env.timers);
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
      sink.discard();
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
      // Pieces of a large event drain too: the follower goes on behind the last of them.
      onDrain: () => sink.isSending || follower.ready(),
      onClose: closed,
      isWithinEvent: () => sink.isSending,
    });
    sink.attach(out, () => follower.ready());
  }
}

function positionOf(lastEventId: string | readonly string[] | undefined): ReaderPosition {
  if (lastEventId === undefined || lastEventId === '') return FROM_THE_START;
  const position = typeof lastEventId === 'string' ? cursorOf(lastEventId) : undefined;
  if (position) return position;
  throw new OrchdError('INVALID_PARAMS', 'Last-Event-ID is not an event id', { field: 'Last-Event-ID' });
}
