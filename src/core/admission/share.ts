/**
 * The share of a common resource that one tenant may hold: at most half of what the others leave free, so that there is
 * always something left for the next one. The default tenant, the operator's, may hold all of it (docs/decisions/0021).
 */
import { DEFAULT_TENANT } from '../../model/records.ts';

/** Whether a tenant that holds `own` of `capacity` may take `more`, while `others` are held by the rest. */
export function isWithinShare(
  tenant: string,
  { own, others, capacity, more = 1 }: { own: number; others: number; capacity: number; more?: number },
): boolean {
  // The first one is always within: half of a small rest may be less than one.
  return tenant === DEFAULT_TENANT || own === 0 || own + more <= (capacity - others) / 2;
}
