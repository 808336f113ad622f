/** Runs what waits for a sequence to be durable, in order. */
interface Waiting {
  readonly seq: number;
  readonly run: () => void;
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
  after(seq: number, run: () => void): void {
    if (seq <= this.#durable && this.#next === this.#waiting.length) run();
    else this.#waiting.push({ seq, run });
  }

  rise(durable: number): void {
    this.#durable = durable;
    while (this.#next < this.#waiting.length) {
      const waiting = this.#waiting[this.#next] as Waiting;
      if (waiting.seq > durable) break;
      this.#next++;
      waiting.run();
    }
    if (this.#next === this.#waiting.length) {
      this.#waiting = [];
      this.#next = 0;
    } else if (this.#next > 4096) {
      this.#waiting = this.#waiting.slice(this.#next);
      this.#next = 0;
    }
  }
}
