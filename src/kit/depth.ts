/** How deep values may be nested that come from callers: enough for any message, too little to harm a parser. */
export const MAX_DEPTH = 64;
/** And how many there may be in one: each is looked at several times, and nobody else is served meanwhile. */
export const MAX_VALUES = 500_000;

export type Excess = 'too deep' | 'too many';

/** Looks no further than the bounds, so that no value is too deep for the stack. */
export function excessOf(value: unknown): Excess | undefined {
  return look(value, MAX_DEPTH, { left: MAX_VALUES });
}

function look(value: unknown, levels: number, budget: { left: number }): Excess | undefined {
  if (--budget.left < 0) return 'too many';
  if (value === null || typeof value !== 'object') return undefined;
  if (levels < 0) return 'too deep';
  if (Array.isArray(value)) {
    for (const item of value) {
      const excess = look(item, levels - 1, budget);
      if (excess) return excess;
    }
    return undefined;
  }
  for (const key in value) {
    const excess = look((value as Record<string, unknown>)[key], levels - 1, budget);
    if (excess) return excess;
  }
  return undefined;
}
