/** Tags as one text, for a column that is searched: each tag stands between two line feeds, which no tag contains. */
import type { Labels } from '../model/records.ts';

export function tagText(tags: Labels | undefined): string | undefined {
  const lines = Object.entries(tags ?? {}).map(tagLine);
  return lines.length === 0 ? undefined : `\n${lines.join('\n')}\n`;
}

/** The texts of which each is a part of tagText() of a job that has all of these tags. */
export const tagParts = (tags: Labels): string[] => Object.entries(tags).map((tag) => `\n${tagLine(tag)}\n`);

/** The name of a tag contains no `=`. */
const tagLine = ([name, value]: [string, string]): string => `${name}=${value}`;
