/** The version of this package. */
import { readFileSync } from 'node:fs';

/** Sources and published files lie at the same depth below package.json. */
export function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
