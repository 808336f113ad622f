/**
 * The JSON text that is sent for a line, made from its text. Parsing a line and writing it again takes several times as long
 * as all the rest: it is left to lines that need it.
 */
import type { Line } from '../../wire/line-splitter.ts';
import type { JobDefaults } from './line-check.ts';

const OPEN = '{'.charCodeAt(0);
const QUOTE = '"'.charCodeAt(0);

/** A function for lines that were checked; it returns undefined for a line that has to be parsed. */
export function textMaker(
  batch: string,
  defaults: JobDefaults,
): (line: Line, jobId: string) => string | undefined {
  const given = Object.entries(defaults).map(
    ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
  );
  const rest = [`"batch":${JSON.stringify(batch)}`, ...given].join(',');
  // A field that a line may have, or a name that it may spell by an escape; text in a string is found, too.
  const names = ['name', 'after', ...Object.keys(defaults)].map((name) => `"${name}"`);
  const mustParse = new RegExp([...names, '\\\\u'].join('|'));
  return ({ bytes }, jobId) => {
    const text = (bytes?.toString('utf8') ?? '').trim();
    const begin = `{"job_id":"${jobId}",${rest},`;
    if (text.charCodeAt(0) === QUOTE)
      return defaults.prompt === undefined ? `${begin}"prompt":${text}}` : undefined;
    if (text.charCodeAt(0) !== OPEN || /^\{\s*\}/.test(text) || mustParse.test(text)) return undefined;
    return begin + text.slice(1);
  };
}
