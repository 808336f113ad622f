/** Which cases of a long list `npm test` takes: always the same ones, some of each kind. */

/**
 * One of `every` cases of each kind, and at least one. Where they begin differs from kind to kind, so that together they
 * spread over the whole list.
 */
export function sampleOfKinds<T>(
  cases: readonly T[],
  kindOf: (item: T) => string,
  every = Number.POSITIVE_INFINITY,
): T[] {
  return [...Map.groupBy(cases, kindOf).values()].flatMap((alike, kind) => {
    const first = kind % Math.min(every, alike.length);
    return alike.filter((_, at) => at % every === first);
  });
}
