/** Bounds on the JSON values that callers send. */

/** The deepest nesting allowed: enough for any message, too little to overflow a recursive parser. */
export const MAX_DEPTH = 64;
/** The most values in one body: each is visited several times. */
export const MAX_VALUES = 500_000;
/** The most keys in one object: listing or sorting its keys is one step, and the event loop is blocked meanwhile. */
export const MAX_KEYS = 20_000;

export type Excess = 'too deep' | 'too many' | 'too many keys';

/** The bound that a value exceeds, if any. The walk stops at the bounds, so no value can overflow the stack. */
export function excessOf(value: unknown): Excess | undefined {
  return walk(value, MAX_DEPTH, { left: MAX_VALUES });
}

function walk(value: unknown, levels: number, budget: { left: number }): Excess | undefined {
  if (--budget.left < 0) return 'too many';
  if (value === null || typeof value !== 'object') return undefined;
  if (levels < 0) return 'too deep';
  if (Array.isArray(value)) {
    for (const item of value) {
      const excess = walk(item, levels - 1, budget);
      if (excess) return excess;
    }
    return undefined;
  }
  let keys = 0;
  for (const key in value) {
    if (++keys > MAX_KEYS) return 'too many keys';
    const excess = walk((value as Record<string, unknown>)[key], levels - 1, budget);
    if (excess) return excess;
  }
  return undefined;
}
