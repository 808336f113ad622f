/** Counters and gauges whose values are kept elsewhere and read for every scrape. */
import type { Gauge, Registry } from 'prom-client';

/** The labels and the value of one series. */
export type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

export interface FamilyOptions {
  readonly name: string;
  readonly help: string;
  readonly registry: Registry;
  /** Without a sample the scrape has no series of this name: an unknown value is not 0. */
  readonly samples: () => Iterable<Sample> | Promise<Iterable<Sample>>;
}

export const counter = (options: FamilyOptions): void => register('counter', options);

export const gauge = (options: FamilyOptions): void => register('gauge', options);

/** The sample of a metric without labels; none where the value is not known. */
export const single = (value: number | undefined): readonly Sample[] =>
  value === undefined ? [] : [[{}, value]];

function register(type: 'counter' | 'gauge', { name, help, registry, samples }: FamilyOptions): void {
  const get = async () => ({
    name,
    help,
    type,
    values: Array.from(await samples(), ([labels, value]) => ({ labels, value })),
  });
  // The registry of prom-client calls nothing else, though its types require more.
  registry.registerMetric({ name, get } as unknown as Gauge);
}
