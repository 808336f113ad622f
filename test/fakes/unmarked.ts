/** What a tool returned, without the two lines around it that tell a model that it is data. */
const MARKED = /^(error:\n)?--- data ([0-9a-f]{12}) ---\n([\s\S]*)\n--- end of data \2 ---(\n[^\n]*)?$/;

/** A text that is not marked stays as it is. */
export function unmarked(content: string): string {
  const [whole, isError, , text, more = ''] = MARKED.exec(content) ?? [];
  if (whole === undefined) return content;
  return `${isError === undefined ? '' : 'error: '}${text}${more}`;
}
