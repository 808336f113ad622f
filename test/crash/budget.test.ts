/**
 * Fifty jobs share a hard budget for twenty: the executor's own ledger must never show more than the budget, and the brain
 * must have settled what the ledger says.
 */
import { killEverywhere } from './kill-everywhere.ts';

killEverywhere('budget', 'a hard budget is never exceeded, and what was billed is settled');
