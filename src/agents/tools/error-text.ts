/** The text for a model about an error that a tool threw: its message, without stack traces and secrets. */
import type { Secret } from '../../kit/secret.ts';

export const MAX_ERROR_CHARS = 2000;

/** A message is searched for secrets up to this length only. */
const MAX_READ_CHARS = 100_000;
const PLACEHOLDER = '[redacted]';

/** Forms of credentials that libraries quote in their messages, with the part before them that stays. */
const CREDENTIALS: readonly RegExp[] = [
  /(:\/\/)[^\s/@]+(?=@)/g,
  /(\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}/gi,
  /((?:api[_-]?key|access[_-]?key|token|secret|password|passwd|authorization)["']?\s*[=:]\s*["']?)[^\s"'&,;]+/gi,
  /()\b(?:sk|pk|ghp|gho|ghs|xox[abp]|AKIA)[-_A-Za-z0-9]{16,}/g,
];

/** `secrets`: values that must not appear, in whatever form the message has. */
export function errorText(thrown: unknown, secrets: readonly Secret[] = []): string {
  const message = messageOf(thrown).slice(0, MAX_READ_CHARS);
  const text = withoutSecrets(message, secrets)
    .split('\n')
    .filter((line) => !/^\s+at .*[:(]|^\s*at .*:\d+:\d+\)?$/.test(line))
    .join('\n')
    .trim();
  if (text === '') return 'the tool failed without a message';
  return text.length <= MAX_ERROR_CHARS ? text : `${text.slice(0, MAX_ERROR_CHARS - 1).toWellFormed()}…`;
}

/** Reading a message may throw: it can be a getter, and the object a proxy. */
function messageOf(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown;
  try {
    const message = (thrown as { message?: unknown } | null | undefined)?.message;
    return typeof message === 'string' ? message : '';
  } catch {
    return '';
  }
}

function withoutSecrets(message: string, secrets: readonly Secret[]): string {
  let text = message;
  for (const secret of secrets) {
    const value = secret.reveal();
    if (value !== '') text = text.replaceAll(value, PLACEHOLDER);
  }
  for (const form of CREDENTIALS) text = text.replace(form, `$1${PLACEHOLDER}`);
  return text;
}
