/** Extracts the reason of a failed start from the end of a worker's log, in a form that callers may see. */

const MAX_LINES = 8;
const MAX_REASON_CHARS = 1000;

// biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes begin with a control character
const COLOUR = /\u001b\[[0-9;]*[A-Za-z]/g;

/** The first line that our own workers print, which explains no failure. */
const BANNER = /^orchd worker \S+ listens on \S+$/;

/** The last lines of the log without secrets, folders of this machine, stack traces and control characters. */
export function reasonIn(log: Buffer, secrets: readonly string[]): string {
  let text = log.toString('utf8');
  for (const secret of secrets) if (secret !== '') text = text.replaceAll(secret, '[redacted]');
  const lines = text
    .replace(COLOUR, '')
    .split(/\r?\n|\r/)
    .map((line) => line.replace(/[^\P{C}\t]/gu, '').trim())
    .filter((line) => line !== '' && !/^at .*[:(]\d+|^node:internal|^Node\.js v/.test(line))
    .map((line) => line.replace(/(?<![\w:/])(?:\/[\w.@+-]+){2,}\/([\w.@+-]+)/g, '$1'));
  // Plain sentences explain more than JSON log lines, which are used only where there is nothing else.
  const sentences = lines.filter((line) => !line.startsWith('{"') && !BANNER.test(line));
  return (sentences.length > 0 ? sentences : lines).slice(-MAX_LINES).join('\n').slice(-MAX_REASON_CHARS);
}
