/** Lets a loop sleep until something has changed. */
export class News {
  #next = Promise.withResolvers<void>();

  tell(): void {
    this.#next.resolve();
    this.#next = Promise.withResolvers();
  }

  /** Resolves at the next change. Look at the state first, without an await in between. */
  get next(): Promise<void> {
    return this.#next.promise;
  }

  /** Resolves when this holds; `holds` is asked after each change. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await this.next;
  }
}
