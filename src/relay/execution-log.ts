/**
 * What an executor said about one attempt, as far as the brain remembers it: the last events up to a number of
 * bytes, each formatted once for all who follow.
 */
import type { ExecutionEvent } from '../core/ports/backend.ts';

/** An event on its way to followers. `data` is JSON text. */
export interface RelayedEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
  /** What `data` is the text of, where it is at hand. */
  readonly value?: unknown;
}

/** An executor's event; made into text when the first follower wants it, and for all of them at once. */
export class LoggedEvent implements RelayedEvent {
  readonly n: number;
  readonly event: string;
  readonly #attempt: number;
  readonly #value: unknown;
  #text: string | undefined;

  constructor(attempt: number, { n, type, data, text }: ExecutionEvent) {
    this.n = n;
    this.event = type;
    this.#attempt = attempt;
    this.#value = data;
    this.#text = text;
  }

  get id(): string {
    return `${this.#attempt}.${this.n}`;
  }

  get value(): unknown {
    return this.#value;
  }

  get data(): string {
    this.#text ??= JSON.stringify(this.#value);
    return this.#text;
  }

  /** About how much it takes, without making the text. */
  get weight(): number {
    const text = (this.#value as { t?: unknown } | undefined)?.t;
    return EVENT_BYTES + (typeof text === 'string' ? text.length : 0);
  }
}

const EVENT_BYTES = 64;

export class ExecutionLog {
  readonly attempt: number;
  readonly #maxBytes: number;
  #events: LoggedEvent[] = [];
  #bytes = 0;
  #last = 0;

  constructor(attempt: number, maxBytes: number) {
    this.attempt = attempt;
    this.#maxBytes = maxBytes;
  }

  /** The number of the newest event. */
  get last(): number {
    return this.#last;
  }

  /** The number of the oldest event that is still here, or the next one. */
  get firstKept(): number {
    return this.#events[0]?.n ?? this.#last + 1;
  }

  /** Whether nothing after `n` has been forgotten. */
  reachesBackTo(n: number): boolean {
    return n >= this.firstKept - 1;
  }

  append(event: ExecutionEvent): void {
    if (event.n <= this.#last) return;
    const entry = new LoggedEvent(this.attempt, event);
    this.#last = event.n;
    this.#events.push(entry);
    this.#bytes += entry.weight;
    // Cut in halves: one by one would move the whole array for every token.
    if (this.#bytes > this.#maxBytes) this.#trim();
  }

  /** The events after `n`, at most so many bytes of them, at least one. */
  after(n: number, maxBytes: number): readonly LoggedEvent[] {
    const from = this.#indexAfter(n);
    let to = from;
    let bytes = 0;
    while (to < this.#events.length && (to === from || bytes < maxBytes)) {
      bytes += (this.#events[to] as LoggedEvent).weight;
      to++;
    }
    return from === 0 && to === this.#events.length ? this.#events.slice() : this.#events.slice(from, to);
  }

  #indexAfter(n: number): number {
    // Followers are nearly always at the end.
    let at = this.#events.length;
    while (at > 0 && (this.#events[at - 1] as LoggedEvent).n > n) at--;
    return at;
  }

  #trim(): void {
    let bytes = this.#bytes;
    let from = 0;
    while (bytes > this.#maxBytes / 2 && from < this.#events.length - 1) {
      bytes -= (this.#events[from] as LoggedEvent).weight;
      from++;
    }
    this.#events = this.#events.slice(from);
    this.#bytes = bytes;
  }
}
