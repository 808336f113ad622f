/** Calls its waiters, in order, when the sequence that they wait for is durable. */
export interface Waiter {
  /** Called when the sequence is durable. */
  done(): void;
  /** Called when the sequence will never be durable. */
  fail(error: Error): void;
}

interface PendingWaiter {
  readonly seq: number;
  readonly waiter: Waiter;
}

export class Watermark {
  #durable: number;
  #waiting: PendingWaiter[] = [];
  #next = 0;

  constructor(durable: number) {
    this.#durable = durable;
  }

  get durable(): number {
    return this.#durable;
  }

  /** `seq` must not decrease from call to call: later waiters depend on later changes. */
  after(seq: number, waiter: Waiter): void {
    if (seq <= this.#durable && this.#next === this.#waiting.length) waiter.done();
    else this.#waiting.push({ seq, waiter });
  }

  /**
   * Calls the waiters of everything up to `durable`; stops early, behind whole commits and at least one, where more than
   * `maxChanges` changes would be reported at once. Returns whether all of them were called.
   */
  rise(durable: number, maxChanges = Number.POSITIVE_INFINITY): boolean {
    this.#durable = this.#stopAt(durable, maxChanges);
    while (this.#next < this.#waiting.length) {
      const { seq, waiter } = this.#waiting[this.#next] as PendingWaiter;
      if (seq > this.#durable) break;
      this.#next++;
      waiter.done();
    }
    if (this.#next === this.#waiting.length) {
      this.#waiting = [];
      this.#next = 0;
    } else if (this.#next > 4096) {
      this.#waiting = this.#waiting.slice(this.#next);
      this.#next = 0;
    }
    return this.#durable === durable;
  }

  #stopAt(durable: number, maxChanges: number): number {
    const from = this.#durable;
    let stop = from;
    for (let at = this.#next; at < this.#waiting.length; at++) {
      const { seq } = this.#waiting[at] as PendingWaiter;
      if (seq > durable) break;
      if (seq - from > maxChanges && stop > from) return stop;
      stop = seq;
    }
    return durable;
  }

  failAll(error: Error): void {
    const waiting = this.#waiting.slice(this.#next);
    this.#waiting = [];
    this.#next = 0;
    for (const { waiter } of waiting) waiter.fail(error);
  }
}
