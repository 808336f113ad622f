/**
 * The stream of a job by way of a node that does not lead: passed on event by event, and taken up again at the next
 * leader from the last id that was passed on, so that its reader sees it to its end.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Timers } from '../kit/env/env.ts';
import { openEventStream } from '../wire/event-stream.ts';
import type { StreamReply } from '../wire/outbound.ts';
import { eachEvent, formatEvent, type SseEvent } from '../wire/sse.ts';

export interface ForwardedStreamParts {
  readonly timers: Timers;
  readonly heartbeatMs: number;
  readonly first: StreamReply;
  readonly lastId: string | undefined;
  /** Asks whoever leads now for what comes after that id; undefined where nobody does. */
  readonly again: (lastId: string | undefined) => Promise<StreamReply | undefined>;
  readonly pause: () => Promise<void>;
}

/** A reader that is this far behind is read for no more until it has caught up. */
const MAX_WAITING_BYTES = 2 ** 20;

export class ForwardedStream {
  readonly #parts: ForwardedStreamParts;
  #lastId: string | undefined;
  #reply: StreamReply | undefined;
  #ended = false;
  #closed = false;
  #drained: (() => void) | undefined;

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
      onDrain: () => this.#drained?.(),
      onClose: () => this.#close(),
    });
    void this.#passOn(out).finally(() => out.end());
  }

  async #passOn(out: Writable): Promise<void> {
    while (!this.#closed && !this.#ended) {
      try {
        this.#reply ??= await this.#parts.again(this.#lastId);
        // It has no more to say: the reader has the end, or the job is gone.
        if (this.#reply && this.#reply.status !== 200 && this.#reply.status < 500) return this.#reply.close();
        if (this.#reply?.status === 200) await eachEvent(this.#reply, (event) => this.#pass(event, out));
      } catch {
        // The leader went away, or the reader is behind: both are taken up again.
      }
      this.#reply?.close();
      this.#reply = undefined;
      if (!this.#closed && !this.#ended) await this.#rest(out);
    }
  }

  #pass(event: SseEvent, out: Writable): void {
    if (event.id !== undefined) this.#lastId = event.id;
    out.write(formatEvent(event));
    this.#ended = event.id?.endsWith('.end') ?? false;
    if (out.writableLength > MAX_WAITING_BYTES) this.#reply?.close();
  }

  #rest(out: Writable): Promise<void> {
    if (!out.writableNeedDrain) return this.#parts.pause();
    return new Promise((resolve) => {
      this.#drained = resolve;
    });
  }

  #close(): void {
    this.#closed = true;
    this.#reply?.close();
    this.#drained?.();
  }
}
