/** Calls that were not admitted for a reason that may pass, such as a full queue: the run asks for them again after a pause. */
import type { EndedCall } from '../run-state.ts';

/** About two minutes in all: as long as a server may take that is started again. */
const PAUSES_MS = [500, 1000, 2000, 4000, 8000, 15_000, 30_000, 60_000];

/** `refusals`: those in a row so far. Undefined where the run has waited long enough. */
export const pauseAfter = (refusals: number): number | undefined => PAUSES_MS[refusals];

export const isRefusedForNow = ({ isRefused, error }: EndedCall): boolean =>
  isRefused === true && error?.retriable === true;
