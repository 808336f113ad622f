/**
 * The brain's copy of one attempt's event log: the newest events, up to a byte limit. Each event is serialized at
 * most once, whatever the number of followers. Older events can only be read from the executor itself.
 */
import type { ExecutionEvent } from '../core/ports/backend.ts';
import type { LargeValue } from '../kit/held-bytes.ts';

/** An event as followers receive it. */
export interface RelayedEvent {
  /** `<attempt>.<n>` for an executor's event; undefined for most of the brain's own. */
  readonly id: string | undefined;
  readonly event: string;
  /** JSON text; with `large`, only the part of it before that value. */
  readonly data: string;
  /** A value in the data that is read from the store when the event is sent, and the JSON text after it. */
  readonly large?: { readonly value: LargeValue; readonly after: string };
  /** The parsed form of `data`, without a large value; undefined where only the text exists. */
  readonly value?: unknown;
}

/** An executor's event. It is serialized when the first follower reads `data`; all others share that text. */
export class NumberedEvent implements RelayedEvent {
  readonly n: number;
  readonly event: string;
  readonly #attempt: number;
  readonly #value: unknown;
  /** An estimate of the event's size that does not serialize it. */
  readonly estimatedBytes: number;
  #text: string | undefined;

  constructor(attempt: number, { n, type, data, text }: ExecutionEvent) {
    this.n = n;
    this.event = type;
    this.#attempt = attempt;
    this.#value = data;
    this.#text = text;
    this.estimatedBytes = EVENT_OVERHEAD_BYTES + (text?.length ?? pieceLength(data));
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
}

const EVENT_OVERHEAD_BYTES = 64;

/** The length of the piece of text in an event that has not been serialized. */
function pieceLength(data: unknown): number {
  const piece = (data as { t?: unknown } | undefined)?.t;
  return typeof piece === 'string' ? piece.length : 0;
}

export class ExecutionLog {
  readonly attempt: number;
  readonly #maxBytes: number;
  #events: NumberedEvent[] = [];
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

  /** The number of the oldest event in this log; of the next event where the log is empty. */
  get firstKept(): number {
    return this.#events[0]?.n ?? this.#last + 1;
  }

  /** True where this log still holds every event after `n`. */
  reachesBackTo(n: number): boolean {
    return n >= this.firstKept - 1;
  }

  append(event: ExecutionEvent): void {
    if (event.n <= this.#last) return;
    const entry = new NumberedEvent(this.attempt, event);
    this.#last = event.n;
    this.#events.push(entry);
    this.#bytes += entry.estimatedBytes;
    // #trim drops half of the log at once: dropping single events would copy the array for every token.
    if (this.#bytes > this.#maxBytes) this.#trim();
  }

  /** The events after `n`, up to about `maxBytes`; at least one where there is one. */
  after(n: number, maxBytes: number): readonly NumberedEvent[] {
    const from = this.#indexAfter(n);
    let to = from;
    let bytes = 0;
    while (to < this.#events.length && (to === from || bytes < maxBytes)) {
      bytes += (this.#events[to] as NumberedEvent).estimatedBytes;
      to++;
    }
    return from === 0 && to === this.#events.length ? this.#events.slice() : this.#events.slice(from, to);
  }

  #indexAfter(n: number): number {
    // Searched from the end, because that is where nearly all followers are.
    let at = this.#events.length;
    while (at > 0 && (this.#events[at - 1] as NumberedEvent).n > n) at--;
    return at;
  }

  #trim(): void {
    let bytes = this.#bytes;
    let from = 0;
    while (bytes > this.#maxBytes / 2 && from < this.#events.length - 1) {
      bytes -= (this.#events[from] as NumberedEvent).estimatedBytes;
      from++;
    }
    this.#events = this.#events.slice(from);
    this.#bytes = bytes;
  }
}
