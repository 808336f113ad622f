/** The records of jobs that wait without an attempt (docs/decisions/0033). */

import type { Body } from './body.ts';
import type { ErrorInfo } from './errors.ts';

/** Why a waiting job goes on: jobs below it have ended, its instant has come, or somebody has answered. */
export type WakeReason = 'children' | 'time' | 'answer';

/** The most that a job and all jobs below it may use: tokens, and money in millionths of the currency. */
export interface TreeBudget {
  readonly tokens?: number | undefined;
  readonly cost?: number | undefined;
}

export interface WaitRecord {
  /** How many times the job has waited so far, this time included. */
  readonly step: number;
  /** The body that the next attempt is given to go on with; undefined where it is a WaitStateRecord. */
  readonly state?: Body | undefined;
  /** The ids of the jobs below it whose end it waits for; empty if it waits for an instant or an answer alone. */
  readonly children: readonly string[];
  /** `all`: every one of `children` must have ended; `any`: one of them. */
  readonly needs: 'all' | 'any';
  /** When it goes on without them. */
  readonly until: number | undefined;
  /** The jobs that it wanted and that were not admitted. */
  readonly refused?: readonly RefusedChild[] | undefined;
  /** What the job lets itself and all jobs below it use. */
  readonly budget?: TreeBudget | undefined;
  /** What the attempt that began the wait has said of its work, for telemetry alone: that attempt is not kept. */
  readonly label?: string | undefined;
  /** Set when it goes on. */
  readonly woken?: WakeReason | undefined;
  /** The answer that has woken it, as JSON text. */
  readonly answer?: string | undefined;
}

/**
 * By the uid of a live job: what it goes on with after its wait, where that is an inline text of SEPARATE_STATE_CHARS or more: the record of
 * the job is written again at every move, and this one once. A job that ends without success has it in its own record.
 */
export interface WaitStateRecord {
  readonly v: 1;
  readonly text: string;
}

/** A shorter text stays in the record of the job: a record of its own would cost more. */
export const SEPARATE_STATE_CHARS = 256;

export interface RefusedChild {
  readonly id: string;
  readonly error: ErrorInfo;
}

/** The most jobs that one wait may be for: all of them are admitted in one commit. */
export const MAX_CHILDREN = 100;
