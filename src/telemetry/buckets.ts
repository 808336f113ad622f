/**
 * Histograms, counted in plain numbers: the histogram of prom-client takes half a microsecond per value, which is much
 * of what a job may cost.
 */
import type { Histogram, MetricValueWithName, Registry } from 'prom-client';

/** Bucket bounds in milliseconds, from a fast decision to the start of a worker with a large model. */
export const LATENCY_MS = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000,
] as const;

/** Bucket bounds in seconds, from a sync of a fast disk to an answer that waits for a job. */
export const LATENCY_SEC = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120,
] as const;

export class Buckets {
  readonly bounds: readonly number[];
  /** Number of values per bucket; the last bucket has the values above all bounds. */
  readonly #counts: number[];
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[] = LATENCY_MS) {
    this.bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  note(value: number): void {
    const { bounds } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] as number)) at++;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.sum += value;
    this.count++;
  }

  /** Number of values up to and including each bound, as Prometheus wants them. */
  *cumulative(): Generator<[bound: number, count: number]> {
    let count = 0;
    for (const [at, bound] of this.bounds.entries()) {
      count += this.#counts[at] as number;
      yield [bound, count];
    }
  }
}

export interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly registry: Registry;
  /** Reads the labels and values of each series; called for every scrape. */
  readonly series: () => Iterable<readonly [labels: Record<string, string>, values: Buckets]>;
}

export function histogram({ name, help, registry, series }: HistogramOptions): void {
  const get = async () => ({
    name,
    help,
    type: 'histogram',
    values: [...series()].flatMap(([labels, values]) => lines(name, labels, values)),
  });
  // The registry of prom-client calls nothing else, though its types require more.
  registry.registerMetric({ name, get } as unknown as Histogram);
}

function lines(name: string, labels: Record<string, string>, values: Buckets): MetricValueWithName<string>[] {
  const bucket = (le: number | string, value: number): MetricValueWithName<string> => ({
    metricName: `${name}_bucket`,
    labels: { le, ...labels },
    value,
  });
  return [
    ...Array.from(values.cumulative(), ([bound, count]) => bucket(bound, count)),
    bucket('+Inf', values.count),
    { metricName: `${name}_sum`, labels, value: values.sum },
    { metricName: `${name}_count`, labels, value: values.count },
  ];
}
