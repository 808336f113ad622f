/** Splits one stream of values into two. */

/** Values that wait to be taken, until the source has ended. */
class Waiting<T> {
  readonly #values: T[] = [];
  #end: { readonly error?: unknown } | undefined;
  #wake: (() => void) | undefined;

  push(value: T): void {
    this.#values.push(value);
    this.#wake?.();
  }

  end(how: { readonly error?: unknown }): void {
    this.#end = how;
    this.#wake?.();
  }

  async *taken(): AsyncGenerator<T> {
    for (;;) {
      for (let value = this.#values.shift(); value !== undefined; value = this.#values.shift()) yield value;
      if (this.#end) {
        if ('error' in this.#end) throw this.#end.error;
        return;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

export interface Split<T> {
  /** The values of which `isFirst` is true. */
  readonly first: AsyncGenerator<T>;
  /** The others. */
  readonly rest: AsyncGenerator<T>;
  /** Ends the source, unless it waits for a value: whoever made it aborts it then. */
  readonly stop: () => void;
}

/**
 * Reads the source at once, also while nobody takes a value: for sources of few values. Both streams end with the source,
 * and fail with it.
 */
export function split<T extends object>(source: AsyncGenerator<T>, isFirst: (value: T) => boolean): Split<T> {
  const [first, rest] = [new Waiting<T>(), new Waiting<T>()];
  const end = (how: { readonly error?: unknown }): void => {
    first.end(how);
    rest.end(how);
  };
  const read = async (): Promise<void> => {
    for await (const value of source) (isFirst(value) ? first : rest).push(value);
  };
  read().then(
    () => end({}),
    (error: unknown) => end({ error }),
  );
  const stop = (): void => void source.return(undefined).catch(() => undefined);
  return { first: first.taken(), rest: rest.taken(), stop };
}
