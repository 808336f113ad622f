/**
 * Bounds the work under way by its total amount (bytes, say). Work that does not fit waits, first come first served.
 * Work larger than the whole budget runs alone.
 */
export class Budget {
  readonly #size: number;
  #used = 0;
  readonly #waiting: { readonly amount: number; readonly begin: () => void }[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  async spend<T>(amount: number, run: () => Promise<T>): Promise<T> {
    if (this.#waiting.length > 0 || !this.#fits(amount)) {
      await new Promise<void>((begin) => this.#waiting.push({ amount, begin }));
    } else this.#used += amount;
    try {
      return await run();
    } finally {
      this.#used -= amount;
      this.#startWaiting();
    }
  }

  #fits(amount: number): boolean {
    return this.#used === 0 || this.#used + amount <= this.#size;
  }

  #startWaiting(): void {
    for (let [first] = this.#waiting; first && this.#fits(first.amount); [first] = this.#waiting) {
      this.#waiting.shift();
      this.#used += first.amount;
      first.begin();
    }
  }
}
