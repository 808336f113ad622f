/** Waits for the ends of jobs. A job may end before its submitter has received its id, so early ends are remembered. */
export class EndWaiters {
  readonly #waiting = new Map<string, () => void>();
  readonly #early = new Set<string>();

  wait(id: string): Promise<void> {
    if (this.#early.delete(id)) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
    });
  }

  ended(id: string): void {
    const resolve = this.#waiting.get(id);
    if (resolve) resolve();
    else this.#early.add(id);
    this.#waiting.delete(id);
  }
}
