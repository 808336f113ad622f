/** The interface of a bench: a name, and a function that returns rows of numbers. */

export interface Options {
  /** Smaller sizes and shorter windows, to see that a bench works; not for publishing. */
  readonly quick: boolean;
  /** A folder on a real disk, for all data of this run. */
  readonly folder: string;
  /** The bench was selected by --only, so it may take long. */
  readonly named: boolean;
}

export type Values = Readonly<Record<string, number | string | undefined>>;

export interface Row {
  /** The name of the measured case, e.g. `submit@64`. */
  readonly case: string;
  readonly values: Values;
}

export interface Bench {
  readonly name: string;
  readonly title: string;
  /** `every`: once per round, interleaved with the others, so that all are exposed to the same noise. `once`: at the end. */
  readonly rounds: 'every' | 'once';
  run(options: Options): Promise<Row[]>;
}

/** The numbers of concurrent callers to measure with. */
export const IN_FLIGHT = [1, 64, 512] as const;

/** The default body of a job. */
export const BODY = 'x'.repeat(200);

/** The warm-up time and the measured time of a steady load. */
export const windowOf = ({ quick }: Pick<Options, 'quick'>): { warmMs: number; measureMs: number } =>
  quick ? { warmMs: 700, measureMs: 800 } : { warmMs: 1500, measureMs: 2000 };
