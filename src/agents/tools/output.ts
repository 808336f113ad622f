/** The result of a tool as a text for a model. */

/** A text as it is, anything else as JSON; what JSON has no form for is `null`. Throws for a value that JSON refuses. */
export function textOf(result: unknown): string {
  return typeof result === 'string' ? result : (JSON.stringify(result) ?? 'null');
}
