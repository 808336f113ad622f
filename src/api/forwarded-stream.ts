/**
 * The stream of a job by way of a node that does not lead: passed on event by event, and taken up again at the next
 * leader from the last id that was passed on, so that its reader sees it to its end.
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
  readonly lastId: string | undefined;
  /** Asks whoever leads now for what comes after that id; undefined where nobody does. */
  readonly again: (lastId: string | undefined) => Promise<StreamReply | undefined>;
  readonly pause: () => Promise<void>;
}

/** For a reader that is this far behind nothing more is read until it has caught up. */
const MAX_WAITING_BYTES = 2 ** 20;

/** After these there is nothing more to say: the reader has the end, or the job is gone. */
const NO_MORE = new Set([204, 404, 410]);

export class ForwardedStream {
  readonly #parts: ForwardedStreamParts;
  #lastId: string | undefined;
  #reply: StreamReply | undefined;
  #over = false;

  constructor(parts: ForwardedStreamParts) {
    this.#parts = parts;
    this.#lastId = parts.lastId;
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
    void this.#passOn(out).finally(() => out.end());
  }

  async #passOn(out: Writable): Promise<void> {
    while (!this.#over) {
      try {
        this.#reply ??= await this.#parts.again(this.#lastId);
        if (this.#reply && NO_MORE.has(this.#reply.status)) this.#over = true;
        else if (this.#reply?.status === 200) await eachEvent(this.#reply, (event) => this.#pass(event, out));
      } catch {
        // The leader went away: the next one is asked from the last event on.
      }
      this.#reply?.close();
      this.#reply = undefined;
      if (!this.#over) await this.#parts.pause();
    }
  }

  #pass(event: SseEvent, out: Writable): void {
    if (event.id !== undefined) this.#lastId = event.id;
    out.write(formatEvent(event));
    this.#over = event.id?.endsWith('.end') ?? false;
    // Left open: to leave would look as if the reader had left the job.
    if (out.writableLength > MAX_WAITING_BYTES) this.#reply?.pause();
  }

  #close(): void {
    this.#over = true;
    this.#reply?.close();
  }
}
