/** The event stream of a job over HTTP. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Env } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import { uidOf } from '../model/records.ts';
import { isTerminal } from '../model/states.ts';
import type { RelayedEvent } from '../relay/execution-log.ts';
import type { Cursor, Follower, Sink } from '../relay/follower.ts';
import { cursorOf, type Ended, FROM_THE_START } from '../runtime/following.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { JobView } from '../runtime/view.ts';
import { openEventStream } from '../wire/event-stream.ts';
import type { Call, Route, Stream } from '../wire/route.ts';
import { formatEvent } from '../wire/sse.ts';
import { grants } from '../wire/tokens.ts';
import type { OpenStreams } from './open-streams.ts';
import { jobIdOf } from './tasks.ts';

export interface EventsOptions {
  readonly env: Env;
  readonly heartbeatMs: number;
  /** How long a job goes on after its last follower has left, where it is to end with them. */
  readonly disconnectGraceMs: number;
  readonly open: OpenStreams;
}

/** From here on an event is made into bytes once for all who follow: a result may be large, and they many. */
const LARGE_CHARS = 64 * 1024;

/** The bytes of large events, for as long as somebody holds the event. */
type LargeEvents = WeakMap<RelayedEvent, Buffer>;

/** A connection as a sink: what the socket does not take at once waits in the log, not here. */
class ConnectionSink implements Sink {
  readonly #out: Writable;
  readonly #large: LargeEvents;

  constructor(out: Writable, large: LargeEvents) {
    this.#out = out;
    this.#large = large;
  }

  write(events: readonly RelayedEvent[]): boolean {
    let takesMore = true;
    let text = '';
    for (const event of events) {
      if (event.data.length < LARGE_CHARS) text += textOf(event);
      else {
        if (text !== '') this.#out.write(text);
        text = '';
        takesMore = this.#out.write(this.#bytesOf(event));
      }
    }
    return text === '' ? takesMore : this.#out.write(text);
  }

  end(): void {
    this.#out.end();
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
    return {
      method: 'GET',
      path: '/v2/tasks/:id/events',
      role: 'read',
      summary: 'Follow a job as server-sent events; Last-Event-ID resumes',
      streams: true,
      answers: {
        200: 'The stream',
        204: 'The reader has heard the end',
        404: 'No such job',
        429: 'Too many streams',
      },
      handle: (call) => this.#handle(call),
    };
  }

  async #handle(call: Call): Promise<Stream | { status: number }> {
    const id = jobIdOf(call);
    const cursor = lastEventId(call);
    // Unknown jobs and refusals are answered as such, before a stream is begun.
    const job = await this.#orchestrator.get(id, call.identity.tenant);
    if (hasHeardTheEnd(cursor, job)) return { status: 204 };
    const giveBack = this.#options.open.take(call.identity);
    const from = 'ended' in cursor ? FROM_THE_START : cursor;
    const onClose = (ended: boolean): void => {
      giveBack();
      if (!ended) this.#left(call, id);
    };
    return {
      stream: (request, response) => {
        // Whoever has left meanwhile is not heard leaving any more.
        if (request.socket.destroyed) onClose(false);
        else this.#stream(call, id, from, request, response, onClose);
      },
    };
  }

  #stream(
    call: Call,
    id: string,
    cursor: Cursor,
    request: IncomingMessage,
    response: ServerResponse,
    onClose: (ended: boolean) => void,
  ): void {
    let follower: Follower | undefined;
    const { env, heartbeatMs } = this.#options;
    const out = openEventStream({
      request,
      response,
      timers: env.timers,
      heartbeatMs,
      onDrain: () => follower?.ready(),
      onClose: () => {
        const ended = follower?.closed ?? false;
        follower?.close();
        onClose(ended);
      },
    });
    const sink = new ConnectionSink(out, this.#large);
    this.#orchestrator.follow(id, cursor, sink, call.identity.tenant).then(
      (opened) => {
        follower = opened;
        if (!response.destroyed) return;
        // It left while it was let in, and counted as a follower itself when it was heard leaving.
        const ended = opened.closed;
        opened.close();
        onClose(ended);
      },
      () => out.end(),
    );
  }

  /** The last follower may take the job with it, after a grace time in which it can come back. */
  #left(call: Call, id: string): void {
    const { tenant, name } = call.identity;
    const uid = uidOf(tenant, id);
    // Whoever may only read takes nothing away by leaving.
    if (!grants(call.identity.role, 'submit')) return;
    if (this.#orchestrator.following.followersOf(uid) > 0 || !this.#endsWithFollowers(uid)) return;
    this.#options.env.timers.after(this.#options.disconnectGraceMs, () => {
      if (this.#orchestrator.following.followersOf(uid) > 0 || !this.#endsWithFollowers(uid)) return;
      this.#orchestrator.cancel(id, `${name} (disconnected)`, tenant).catch(() => undefined);
    });
  }

  #endsWithFollowers(uid: string): boolean {
    const spec = this.#orchestrator.reads.spec(uid);
    if (!spec) return false;
    return (spec.on_disconnect ?? (spec.priority === 'interactive' ? 'cancel' : 'continue')) === 'cancel';
  }
}

/** The end of an earlier life of a redriven job is not the end. */
function hasHeardTheEnd(cursor: Cursor | Ended, job: JobView): boolean {
  return 'ended' in cursor && isTerminal(job.state) && cursor.ended >= (job.attempts.at(-1)?.attempt ?? 0);
}

function lastEventId(call: Call): Cursor | Ended {
  const given = call.headers['last-event-id'] ?? (call.query as { last_event_id?: string }).last_event_id;
  if (given === undefined || given === '') return FROM_THE_START;
  const cursor = typeof given === 'string' ? cursorOf(given) : undefined;
  if (!cursor)
    throw new OrchdError('INVALID_PARAMS', 'Last-Event-ID is no event id', { field: 'Last-Event-ID' });
  return cursor;
}
