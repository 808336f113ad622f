/** What every bench is: a name and a function that returns rows of numbers. */

export interface Options {
  /** Smaller sizes and shorter windows: to see that it works, not to publish. */
  readonly quick: boolean;
  /** A folder on a real disk, for all data of this run. */
  readonly folder: string;
  /** The bench was asked for by name, so it may take its time. */
  readonly named: boolean;
}

export type Values = Readonly<Record<string, number | string | undefined>>;

export interface Row {
  /** What was measured, e.g. `submit@64`. */
  readonly case: string;
  readonly values: Values;
}

export interface Bench {
  readonly name: string;
  readonly title: string;
  /** `every`: once per round, interleaved with the others, so that they meet the same noise. `once`: at the end. */
  readonly rounds: 'every' | 'once';
  run(options: Options): Promise<Row[]>;
}

/** How many callers wait at once. */
export const IN_FLIGHT = [1, 64, 512] as const;

/** The body of a job in every bench that does not say otherwise. */
export const BODY = 'x'.repeat(200);

/** Warm-up and measured time of a steady load. */
export const windowOf = ({ quick }: Pick<Options, 'quick'>): { warmMs: number; measureMs: number } =>
  quick ? { warmMs: 700, measureMs: 800 } : { warmMs: 1500, measureMs: 2000 };
