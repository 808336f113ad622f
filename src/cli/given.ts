/** Reads the values of a command line as what they should be; what they are not is said in a sentence. */
import { nearest } from '../kit/nearest.ts';
import { type Given, UsageError } from './command.ts';

type Values = Given['values'];

export function textOf(values: Values, name: string): string | undefined {
  return values[name] as string | undefined;
}

export function flagOf(values: Values, name: string): boolean {
  return values[name] === true;
}

export function listOf(values: Values, name: string): readonly string[] {
  return (values[name] as readonly string[] | undefined) ?? [];
}

export function numberOf(values: Values, name: string): number | undefined {
  const text = textOf(values, name);
  if (text === undefined) return undefined;
  const number = text.trim() === '' ? Number.NaN : Number(text);
  if (!Number.isFinite(number)) throw new UsageError(`--${name} needs a number, not "${text}".`);
  return number;
}

export function wholeOf(values: Values, name: string, least: number, most: number): number | undefined {
  const number = numberOf(values, name);
  if (number === undefined) return undefined;
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  throw new UsageError(`--${name} needs a whole number from ${least} to ${most}, not "${values[name]}".`);
}

export function choiceOf<T extends string>(
  values: Values,
  name: string,
  choices: readonly T[],
): T | undefined {
  const text = textOf(values, name);
  return text === undefined ? undefined : oneOf(text, `--${name}`, choices);
}

export function oneOf<T extends string>(text: string, what: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  const close = nearest(text, choices);
  const hint = close === undefined ? '' : ` Did you mean "${close}"?`;
  throw new UsageError(`${what} is ${choices.join(', ')}, not "${text}".${hint}`);
}

/** Exactly one word, called `what` when it is missing. */
export function onlyWord(words: readonly string[], what: string): string {
  const [first, more] = words;
  if (first === undefined) throw new UsageError(`which ${what}? Name it.`);
  if (more !== undefined) throw new UsageError(`one ${what} at a time; "${more}" is one too many.`);
  return first;
}

export function noWords(words: readonly string[]): void {
  if (words[0] !== undefined) throw new UsageError(`nothing is known to do with "${words[0]}".`);
}

/** Whether there is such a job the server says; these would not even reach its path. */
export function jobId(text: string): string {
  if (!/^\.{0,2}$/.test(text)) return text;
  throw new UsageError(`"${text}" names no job.`);
}

export function jobIds(words: readonly string[]): readonly string[] {
  if (words.length === 0) throw new UsageError('which job? Name one or more.');
  return words.map(jobId);
}

/** An environment variable that is set to nothing is not set. */
export function variable(name: string): string | undefined {
  const text = process.env[name]?.trim();
  return text === '' ? undefined : text;
}
