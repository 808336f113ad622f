/** Routes: a name that callers use for an ordered list of models. */

/** Why a job leaves a step of its route, or does not enter it. */
export const ROUTE_REASONS = {
  rate_limited: 'every provider of the model wants no jobs for now',
  error: 'a try has failed by the fault of the provider, or nobody who has the model can be used',
  too_long: 'the job needs a longer context than the model has',
  wait_ms: 'it has waited there for as long as the step allows',
  budget: 'a hard budget has no room for what it may cost there',
  time: 'it is not the time of day for the step',
  forbidden: 'the rules of governance forbid the model',
} as const;
export type RouteReason = keyof typeof ROUTE_REASONS;

/** A job goes on for this reason whether its step lists it or not: otherwise it could not be run at all. */
export const UNLISTED_REASON = 'forbidden' satisfies RouteReason;

/** A part of every day: `from` is included, `to` is not; with `to` before `from` it goes over midnight. */
export interface DayTime {
  /** As in "08:30". */
  readonly from: string;
  readonly to: string;
  /** The IANA name of the time zone. */
  readonly timeZone: string;
}

/** Texts such as 08:30. */
export const TIME_OF_DAY = '^(?:[01][0-9]|2[0-3]):[0-5][0-9]$';

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
  /** The context that a backend must have, as `contextTokens` of an ask. */
  readonly contextTokens?: number | undefined;
  /** The tokens that the job itself needs, for the steps that follow. */
  readonly neededTokens?: number | undefined;
  /** When a job that still waits goes on to the next step; undefined if it stays. */
  readonly leaveAt?: number | undefined;
  /** The steps that were passed over or left, and why, in order. */
  readonly left: readonly RouteLeft[];
}

export interface RouteLeft {
  readonly model: string;
  readonly why: RouteReason;
}
