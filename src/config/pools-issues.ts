/** What contradicts itself in the section `pools`. */
import type { Issue } from './issues.ts';

interface Written {
  readonly min_warm_workers_per_pool: number;
  readonly max_total_workers: number;
}

export function poolsIssues({ min_warm_workers_per_pool: min, max_total_workers: max }: Written): Issue[] {
  if (min <= max) return [];
  const message = `may not be more than max_total_workers (${max})`;
  return [{ path: ['pools', 'min_warm_workers_per_pool'], message, at: 'value' }];
}
