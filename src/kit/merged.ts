/** Merges several streams of values into one. */

interface Arrival<T> {
  readonly source: AsyncGenerator<T>;
  readonly next: IteratorResult<T> | { readonly error: unknown };
}

/**
 * Yields the values of all sources as they come, until all have ended or, with `untilFirst`, until the first source has.
 * A source is asked for its next value only when its last one was taken: at most one value of each waits here. A source
 * that throws ends the stream with its error. Sources that still wait for a value then are not ended by this: whoever made
 * them aborts them.
 */
export async function* merged<T>(
  sources: readonly AsyncGenerator<T>[],
  { untilFirst = false }: { readonly untilFirst?: boolean } = {},
): AsyncGenerator<T> {
  const arrived: Arrival<T>[] = [];
  let wake: (() => void) | undefined;
  const arrive = (arrival: Arrival<T>): void => {
    arrived.push(arrival);
    wake?.();
  };
  const ask = (source: AsyncGenerator<T>): void =>
    void source.next().then(
      (next) => arrive({ source, next }),
      (error: unknown) => arrive({ source, next: { error } }),
    );
  for (const source of sources) ask(source);
  const open = new Set(sources);
  try {
    while (open.size > 0) {
      const arrival = arrived.shift();
      if (!arrival) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      const { source, next } = arrival;
      if ('error' in next) throw next.error;
      if (next.done) {
        open.delete(source);
        if (untilFirst && source === sources[0]) return;
        continue;
      }
      yield next.value;
      ask(source);
    }
  } finally {
    for (const source of open) void source.return(undefined).catch(() => undefined);
  }
}
