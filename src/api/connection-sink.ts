/** Writes the events of a follower to the connection of its client. */
import type { Writable } from 'node:stream';
import type { Timers } from '../kit/env/env.ts';
import type { HeldBytes } from '../kit/held-bytes.ts';
import type { RelayedEvent } from '../relay/execution-log.ts';
import type { Sink } from '../relay/follower.ts';
import { writeInPieces } from '../wire/pieces.ts';
import { formatEvent } from '../wire/sse.ts';

/** An event of this size or more is encoded once for all its followers, and written in pieces. */
const LARGE_CHARS = 64 * 1024;

/** The bytes of such events; an entry lives as long as its event is referenced. */
export type EncodedEvents = WeakMap<RelayedEvent, Buffer>;

/** A large event that waits to be sent. */
interface LargeEvent {
  /** The text before and after the bytes. */
  readonly before: string;
  readonly after: string;
  readonly held: Promise<HeldBytes>;
}

/**
 * When the socket is full, `write` returns false and later events wait in the relay's log, not here. Until the
 * connection is attached, the sink keeps the few events that the follower delivers at once, and counts as full. So it
 * does while a large event is sent, which is written as the client reads it.
 */
export class ConnectionSink implements Sink {
  readonly #encoded: EncodedEvents;
  readonly #timers: Timers;
  #out: Writable | undefined;
  #onReady: () => void = () => undefined;
  #queue: (string | LargeEvent)[] = [];
  #isSending = false;
  #ended = false;

  constructor(encoded: EncodedEvents, timers: Timers) {
    this.#encoded = encoded;
    this.#timers = timers;
  }

  /** A large event is being sent. */
  get isSending(): boolean {
    return this.#isSending;
  }

  /** `onReady` is called when the sink has sent what it kept and takes more. */
  attach(out: Writable, onReady: () => void): void {
    this.#out = out;
    this.#onReady = onReady;
    void this.#sendQueue(out);
  }

  write(events: readonly RelayedEvent[]): boolean {
    const out = this.#out;
    let text = '';
    for (const event of events) {
      if (event.data.length < LARGE_CHARS && !event.large) text += textOf(event);
      else {
        if (text !== '') this.#queue.push(text);
        text = '';
        this.#queue.push(this.#largeEvent(event));
      }
    }
    if (out && this.#queue.length === 0 && !this.#isSending) return out.write(text);
    if (text !== '') this.#queue.push(text);
    if (out && !this.#isSending) void this.#sendQueue(out);
    return false;
  }

  end(): void {
    this.#ended = true;
    if (!this.#isSending) this.#out?.end();
  }

  /** The connection is closed: releases what was not sent. */
  discard(): void {
    const unsent = this.#queue;
    this.#queue = [];
    for (const event of unsent) {
      if (typeof event !== 'string')
        event.held.then(
          ({ release }) => release(),
          () => undefined,
        );
    }
  }

  async #sendQueue(out: Writable): Promise<void> {
    this.#isSending = true;
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      if (typeof next === 'string') out.write(next);
      else await this.#sendLarge(next, out);
    }
    this.#isSending = false;
    if (this.#ended) out.end();
    else this.#onReady();
  }

  async #sendLarge({ before, after, held }: LargeEvent, out: Writable): Promise<void> {
    try {
      const { bytes, release } = await held;
      await writeInPieces(out, [before, bytes, after], this.#timers);
      release();
    } catch {
      // The result cannot be read: the client connects again, and gets the reason as an error.
      out.destroy();
    }
  }

  #largeEvent(event: RelayedEvent): LargeEvent {
    const { large } = event;
    if (!large) return { before: '', after: '', held: Promise.resolve(this.#encodedOf(event)) };
    const text = textOf(event);
    const held = large.value.open('later');
    held.catch(() => undefined);
    // `data` ends where the value begins.
    const end = text.lastIndexOf(event.data) + event.data.length;
    return { before: text.slice(0, end), after: large.after + text.slice(end), held };
  }

  #encodedOf(event: RelayedEvent): HeldBytes {
    let bytes = this.#encoded.get(event);
    if (!bytes) {
      bytes = Buffer.from(textOf(event));
      this.#encoded.set(event, bytes);
    }
    return { bytes, release: () => undefined };
  }
}

const textOf = ({ id, event, data }: RelayedEvent): string =>
  formatEvent(id === undefined ? { event, data } : { id, event, data });
