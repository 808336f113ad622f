/** Clocks, quantiles, and concurrent calls. */

export const now = (): number => performance.now();

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The value below which a share of the samples lies; undefined without samples. */
export function quantile(samples: readonly number[], share: number): number | undefined {
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export const median = (samples: readonly number[]): number | undefined => quantile(samples, 0.5);

/** Calls `one` for 0 … count - 1, with at most `width` calls at a time. */
export async function inFlight(
  count: number,
  width: number,
  one: (at: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < count) await one(next++);
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, client));
}

const NS_PER_MS = 1_000_000n;

/** The current time in milliseconds on a monotonic clock that all processes of this machine share. */
export function sharedNow(): number {
  const ns = process.hrtime.bigint();
  return Number(ns / NS_PER_MS) + Number(ns % NS_PER_MS) / Number(NS_PER_MS);
}
