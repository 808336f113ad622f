/**
 * The events of one execution, numbered from 1 (or after `numbered`) and kept in their SSE form. Beyond `maxBytes` the oldest events are
 * dropped: a reader that is behind them sees a gap in the numbers. The newest event is always kept, so the end is too.
 */
import { formatEvent } from '../../wire/sse.ts';

export type EventType = 'started' | 'token' | 'metrics' | 'end' | 'error';

export interface LoggedEvent {
  readonly n: number;
  /** The event in its SSE form. */
  readonly text: string;
  readonly isLast: boolean;
}

export class EventLog {
  readonly #maxBytes: number;
  readonly #readers = new Set<() => void>();
  #events: LoggedEvent[] = [];
  #bytes = 0;
  #count: number;
  #closed = false;

  /** `numbered`: all numbers up to this one may have been used by an earlier log of the same execution. */
  constructor(maxBytes: number, numbered = 0) {
    this.#maxBytes = maxBytes;
    this.#count = numbered;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the last event (`end` or `error`) has been appended. */
  get closed(): boolean {
    return this.#closed;
  }

  append(type: EventType, data: unknown): void {
    if (this.#closed) return;
    const n = ++this.#count;
    this.#closed = type === 'end' || type === 'error';
    const text = formatEvent({ id: String(n), event: type, data: JSON.stringify(data) });
    this.#events.push({ n, text, isLast: this.#closed });
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > this.#maxBytes) this.#trim();
    for (const wake of [...this.#readers]) wake();
  }

  /** The events after number `n`, up to about `maxChars` characters, but at least one if there is one. */
  after(n: number, maxChars: number): readonly LoggedEvent[] {
    let from = this.#events.length;
    while (from > 0 && (this.#events[from - 1] as LoggedEvent).n > n) from--;
    let to = from;
    for (let chars = 0; to < this.#events.length && (to === from || chars < maxChars); to++) {
      chars += (this.#events[to] as LoggedEvent).text.length;
    }
    return this.#events.slice(from, to);
  }

  /** Calls `wake` after every new event, until the returned function is called. */
  watch(wake: () => void): () => void {
    this.#readers.add(wake);
    return () => this.#readers.delete(wake);
  }

  /** Trims to half of `maxBytes`: dropping events one by one would move the whole array for every token. */
  #trim(): void {
    let from = 0;
    while (this.#bytes > this.#maxBytes / 2 && from < this.#events.length - 1) {
      this.#bytes -= Buffer.byteLength((this.#events[from] as LoggedEvent).text);
      from++;
    }
    this.#events = this.#events.slice(from);
  }
}
