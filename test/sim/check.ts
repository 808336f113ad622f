export function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`broken: ${what}`);
}
