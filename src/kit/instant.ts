/** Instants as people write them: ISO 8601 with an offset from UTC, so that no time zone has to be guessed. */

const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/i;

/** Milliseconds since 1970; undefined for a text that is no instant. */
export function parseInstant(text: string): number | undefined {
  if (!ISO.test(text)) return undefined;
  const withColon = text.replace(',', '.').replace(/([+-]\d{2})(\d{2})$/, '$1:$2');
  const at = Date.parse(withColon);
  return Number.isNaN(at) ? undefined : at;
}
