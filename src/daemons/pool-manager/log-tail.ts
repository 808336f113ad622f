/** The last lines of a worker's log as a reason that a caller may see. */

const MAX_LINES = 8;
const MAX_CHARS = 1000;

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one
const COLOUR = /\u001b\[[0-9;]*[A-Za-z]/g;

/** Where a worker of ours listens is no reason for anything. */
const BANNER = /^orchd worker \S+ listens on \S+$/;

/** Without the secrets and the folders of this machine, and without control characters. */
export function reasonIn(log: Buffer, secrets: readonly string[]): string {
  let text = log.toString('utf8');
  for (const secret of secrets) if (secret !== '') text = text.replaceAll(secret, '[redacted]');
  const lines = text
    .replace(COLOUR, '')
    .split(/\r?\n|\r/)
    .map((line) => line.replace(/[^\P{C}\t]/gu, '').trim())
    .filter((line) => line !== '' && !/^at .*[:(]\d+|^node:internal|^Node\.js v/.test(line))
    .map((line) => line.replace(/(?<![\w:/])(?:\/[\w.@+-]+){2,}\/([\w.@+-]+)/g, '$1'));
  // What is meant for a person says more than a log; where there is nothing else, it has to do.
  const sentences = lines.filter((line) => !line.startsWith('{"') && !BANNER.test(line));
  return (sentences.length > 0 ? sentences : lines).slice(-MAX_LINES).join('\n').slice(-MAX_CHARS);
}
