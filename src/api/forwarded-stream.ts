/**
 * Forwards the event stream of a job from the leader to a client of this node, event by event. When the leader
 * changes, the stream is reopened at the next one after the last forwarded event id, so the client sees it to its end.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Timers } from '../kit/env/env.ts';
import { openEventStream } from '../wire/event-stream.ts';
import type { StreamReply } from '../wire/outbound.ts';
import { formatEvent, type SseEvent } from '../wire/sse.ts';
import { eachEvent } from '../wire/sse-bytes.ts';

export interface ForwardedStreamParts {
  readonly timers: Timers;
  readonly heartbeatMs: number;
  readonly first: StreamReply;
  readonly lastEventId: string | undefined;
  /** Opens the stream at the current leader, after `lastEventId`; undefined while there is no leader. */
  readonly reopen: (lastEventId: string | undefined) => Promise<StreamReply | undefined>;
  readonly pause: () => Promise<void>;
}

/** With more unsent bytes than this, reading from the leader pauses until the client has caught up. */
const MAX_BUFFERED_BYTES = 2 ** 20;

/** With these statuses nothing is left to forward: the client has the end already, or the job no longer exists. */
const FINAL_STATUSES = new Set([204, 404, 410]);

export class ForwardedStream {
  readonly #parts: ForwardedStreamParts;
  #lastEventId: string | undefined;
  #reply: StreamReply | undefined;
  #isOver = false;

  constructor(parts: ForwardedStreamParts) {
    this.#parts = parts;
    this.#lastEventId = parts.lastEventId;
    this.#reply = parts.first;
  }

  run(request: IncomingMessage, response: ServerResponse): void {
    const { timers, heartbeatMs } = this.#parts;
    const out = openEventStream({
      request,
      response,
      timers,
      heartbeatMs,
      onDrain: () => this.#reply?.resume(),
      onClose: () => this.#close(),
    });
    void this.#forward(out).finally(() => out.end());
  }

  async #forward(out: Writable): Promise<void> {
    while (!this.#isOver) {
      try {
        this.#reply ??= await this.#parts.reopen(this.#lastEventId);
        if (this.#reply && FINAL_STATUSES.has(this.#reply.status)) this.#isOver = true;
        else if (this.#reply?.status === 200)
          await eachEvent(this.#reply, (event) => this.#write(event, out));
      } catch {
        // The leader was lost: the loop reopens the stream at the next one.
      }
      this.#reply?.close();
      this.#reply = undefined;
      if (!this.#isOver) await this.#parts.pause();
    }
  }

  #write(event: SseEvent, out: Writable): void {
    if (event.id !== undefined) this.#lastEventId = event.id;
    out.write(formatEvent(event));
    this.#isOver = event.id?.endsWith('.end') ?? false;
    // Paused, not closed: the leader would take a closed stream for a client that has disconnected.
    if (out.writableLength > MAX_BUFFERED_BYTES) this.#reply?.pause();
  }

  #close(): void {
    this.#isOver = true;
    this.#reply?.close();
  }
}
