/** How deep values may be nested that come from callers: enough for any message, too little to harm a parser. */
export const MAX_DEPTH = 64;

/** Looks no deeper than the bound, so that no value is too deep for the stack. */
export function isTooDeep(value: unknown, levels = MAX_DEPTH): boolean {
  if (value === null || typeof value !== 'object') return false;
  if (levels < 0) return true;
  if (Array.isArray(value)) return value.some((item) => isTooDeep(item, levels - 1));
  for (const key in value) if (isTooDeep((value as Record<string, unknown>)[key], levels - 1)) return true;
  return false;
}
