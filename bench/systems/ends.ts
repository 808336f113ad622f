/** Who waits for the end of which job: it may end before its submitter has heard of its id. */
export class Ends {
  readonly #waiting = new Map<string, () => void>();
  readonly #early = new Set<string>();

  of(id: string): Promise<void> {
    if (this.#early.delete(id)) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
    });
  }

  tell(id: string): void {
    const resolve = this.#waiting.get(id);
    if (resolve) resolve();
    else this.#early.add(id);
    this.#waiting.delete(id);
  }
}
