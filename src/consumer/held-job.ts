/** A job that this consumer holds: what it says while it runs, and how it has ended. */
import type { ConsumerEvents, ConsumerResults } from '../model/http/consumers.ts';

/** Older events of a token are dropped: the brain asks for them again only if it is a new one. */
const KEPT_EVENT_BYTES = 256 * 1024;

type ConsumerEvent = ConsumerEvents['events'][number];
export type Reported = ConsumerResults['results'][number];
type WithoutToken<T> = T extends unknown ? Omit<T, 'token'> : never;
/** How a job has ended, as it is reported. */
export type Ended = WithoutToken<Reported>;

export class HeldJob {
  readonly token: string;
  /** The result that the brain has not acknowledged yet. */
  result: Reported | undefined;
  /** The job is no longer this consumer's: nothing is reported. */
  isLost = false;
  /** Why it is to end. */
  why: string | undefined;
  readonly #stop = new AbortController();
  readonly #onNews: () => void;
  readonly #events: { readonly event: ConsumerEvent; readonly bytes: number }[] = [];
  #bytes = 0;
  #numbered = 0;
  #sent = 0;
  /** The number of the last event that had been sent when the brain last told how far it is. */
  #compared = 0;

  constructor(token: string, onNews: () => void) {
    this.token = token;
    this.#onNews = onNews;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  stop(why: string): void {
    this.why ??= why;
    this.#stop.abort();
  }

  emit(text: string): void {
    this.#event('token', { t: text, i: this.#numbered + 1 });
  }

  metrics(data: unknown): void {
    this.#event('metrics', data);
  }

  #event(type: ConsumerEvent['type'], data: unknown): void {
    const event = { token: this.token, n: this.#numbered + 1, type, data };
    const bytes = JSON.stringify(event).length;
    this.#numbered += 1;
    this.#events.push({ event, bytes });
    this.#bytes += bytes;
    while (this.#bytes > KEPT_EVENT_BYTES && this.#events.length > 1)
      this.#bytes -= this.#events.shift()?.bytes ?? 0;
    this.#onNews();
  }

  get hasUnsent(): boolean {
    return this.#sent < this.#numbered;
  }

  /** The events that are to be sent; the first one says so if those before it are gone. */
  unsent(): ConsumerEvent[] {
    const first = this.#numbered - this.#events.length + 1;
    const events = this.#events.slice(Math.max(0, this.#sent + 1 - first)).map(({ event }) => event);
    const [next] = events;
    if (next && next.n > this.#sent + 1) events[0] = { ...next, gap: true };
    return events;
  }

  sent(n: number): void {
    this.#sent = Math.max(this.#sent, n);
  }

  /** The brain has the events up to `n`. What was sent before it last said so, and is missing, has not arrived. */
  compare(n: number): void {
    if (n < this.#compared) {
      this.#sent = n;
      this.#onNews();
    }
    this.#compared = this.#sent;
  }
}
