/** Routes: a name that callers use for an ordered list of models. */

/** Why a job leaves a step of its route, or does not enter it. */
export type RouteReason = 'rate_limited' | 'error' | 'too_long' | 'wait_ms' | 'budget' | 'time';

/** Part of a day in a time zone: `from` is included, `to` is not; with `to` before `from` it goes over midnight. */
export interface DayTime {
  /** As in "08:30". */
  readonly from: string;
  readonly to: string;
  /** The IANA name of the time zone. */
  readonly timeZone: string;
}

export interface RouteStep {
  readonly model: string;
  /** The reasons for which a job goes on to the next step: those that are not listed make it wait, or fail, here. */
  readonly on: readonly RouteReason[];
  /** With `wait_ms` in `on`: how long a job waits for this step. */
  readonly waitMs?: number | undefined;
  /** With `time` in `on`: when the step may be used. */
  readonly time?: DayTime | undefined;
  /** The share of jobs that begin at this step, among the first steps that have a weight. */
  readonly weight?: number | undefined;
}

export interface RouteRecord {
  readonly v: 1;
  readonly id: string;
  readonly steps: readonly RouteStep[];
  readonly by: string;
  readonly at: number;
}

/** Where a job is in its route, and why. */
export interface RoutePlace {
  /** The index of the step. */
  readonly at: number;
  readonly model: string;
  /** The exact reference of the model, if it is in the catalog. */
  readonly modelRef?: string | undefined;
  /** Since when the job is at this step. */
  readonly since: number;
  /** The steps that were passed over or left, and why, in order; the last few. */
  readonly left: readonly { readonly model: string; readonly why: RouteReason }[];
}
