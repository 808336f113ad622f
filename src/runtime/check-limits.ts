/** Checks limits and prices without a brain, as a brain does when it starts. */
import { checkScope } from '../core/admission/quota.ts';
import { LimitTable } from '../core/limits/limit.ts';
import { PriceBook } from '../core/money/price-book.ts';
import type { LimitSpec } from '../model/limit-records.ts';
import type { PriceSpec } from '../model/price.ts';
import { DEFAULT_TENANT } from '../model/records.ts';

/** Throws INVALID_PARAMS for a scope that does not exist, and for one that is limited twice. */
export function checkLimits(limits: readonly LimitSpec[]): void {
  for (const { scope } of limits) checkScope(scope, DEFAULT_TENANT);
  new LimitTable(limits);
}

/** Throws INVALID_PARAMS for two prices of one name and time. */
export const checkPrices = (prices: readonly PriceSpec[]): void => void new PriceBook(prices);
