/** Measurements of money, in millionths of the currency. */
import type { Registry } from 'prom-client';
import type { Figures } from '../runtime/figures.ts';
import { counter, gauge, type Sample, single } from './family.ts';
import type { Tally } from './tally.ts';

/** `figures` returns the figures of the scrape that is being answered. */
export function moneyMetrics(figures: () => Figures, tally: Tally, registry: Registry): void {
  counter({
    name: 'orchd_cost_millionths_total',
    help: 'What closed attempts have cost, by model and by how that is known',
    registry,
    samples: () => modelCosts(tally),
  });
  counter({
    name: 'orchd_cost_overruns_total',
    help: 'Attempts that were billed more than their upper bound',
    registry,
    samples: () => single(tally.overruns.count),
  });
  counter({
    name: 'orchd_cost_overrun_millionths_total',
    help: 'By how much attempts were billed more than their upper bound',
    registry,
    samples: () => single(tally.overruns.excess),
  });
  gauge({
    name: 'orchd_cost_reserved_millionths',
    help: 'What open attempts hold back of their budgets',
    registry,
    samples: () => single(figures().money.reserved),
  });
  gauge({
    name: 'orchd_budget_used_ratio',
    help: 'The used share of each cost budget that names its scope, by whether it is spent or reserved',
    registry,
    samples: () => budgetShares(figures()),
  });
  gauge({
    name: 'orchd_jobs_parked_quota',
    help: 'Jobs that wait at a limit of running jobs or at a hard budget, outside of their lanes',
    registry,
    samples: () => single(figures().money.parked),
  });
  gauge({
    name: 'orchd_seats_paused',
    help: 'Seats that get no job because their provider has billed more than its bound',
    registry,
    samples: () => single(figures().money.pausedSeats),
  });
}

function* modelCosts({ costs }: Tally): Generator<Sample> {
  for (const [model_ref, byBasis] of costs)
    for (const [basis, cost] of Object.entries(byBasis)) yield [{ model_ref, basis }, cost];
}

function* budgetShares({ money }: Figures): Generator<Sample> {
  for (const { scope, budget, settled, reserved } of money.budgets) {
    // Of a budget of 0 nothing can be used, and everything is.
    const share = (used: number): number => (budget === 0 ? 1 : used / budget);
    yield [{ scope, part: 'spent' }, share(settled)];
    yield [{ scope, part: 'reserved' }, budget === 0 ? 0 : reserved / budget];
  }
}
