/** Runs what waits for a sequence to be durable, in order. */
export interface Waiter {
  /** The sequence is durable. */
  done(): void;
  /** It never will be. */
  fail(error: Error): void;
}

interface Waiting {
  readonly seq: number;
  readonly waiter: Waiter;
}

export class Watermark {
  #durable: number;
  #waiting: Waiting[] = [];
  #next = 0;

  constructor(durable: number) {
    this.#durable = durable;
  }

  get durable(): number {
    return this.#durable;
  }

  /** Sequences must not go down from call to call: later steps depend on later changes. */
  after(seq: number, waiter: Waiter): void {
    if (seq <= this.#durable && this.#next === this.#waiting.length) waiter.done();
    else this.#waiting.push({ seq, waiter });
  }

  rise(durable: number): void {
    this.#durable = durable;
    while (this.#next < this.#waiting.length) {
      const { seq, waiter } = this.#waiting[this.#next] as Waiting;
      if (seq > durable) break;
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
  }

  failAll(error: Error): void {
    const waiting = this.#waiting.slice(this.#next);
    this.#waiting = [];
    this.#next = 0;
    for (const { waiter } of waiting) waiter.fail(error);
  }
}
