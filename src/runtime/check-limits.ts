/** Checks limits without a brain, as a brain does when it starts. */
import { LimitTable } from '../core/limits/limit.ts';
import type { LimitSpec } from '../model/limit-records.ts';

/** Throws INVALID_PARAMS for a scope that does not exist, and for one that is limited twice. */
export const checkLimits = (limits: readonly LimitSpec[]): void => void new LimitTable(limits);
