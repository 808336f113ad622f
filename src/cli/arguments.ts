/** Reads the options and positionals of a command line; throws UsageError where a value is not of the expected kind. */
import { parseDuration } from '../kit/duration.ts';
import { nearest } from '../kit/nearest.ts';
import { type CliArguments, UsageError } from './command.ts';

type Values = CliArguments['values'];

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

/** The milliseconds of a duration such as 500ms, 90s, 10m, 2h or 1d. */
export function durationOf(values: Values, name: string): number | undefined {
  const text = textOf(values, name);
  if (text === undefined) return undefined;
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new UsageError(`--${name} needs a duration such as 90s, 10m, 2h or 1d, not "${text}".`);
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
  throw new UsageError(`${what} must be one of ${choices.join(', ')}, not "${text}".${hint}`);
}

/** Returns the only positional; `what` is its name in the error where it is missing or there are several. */
export function singlePositional(positionals: readonly string[], what: string): string {
  const [first, second] = positionals;
  if (first === undefined) throw new UsageError(`the ${what} is missing.`);
  if (second !== undefined)
    throw new UsageError(`only one ${what} can be given; "${second}" is a second one.`);
  return first;
}

export function noPositionals(positionals: readonly string[]): void {
  if (positionals[0] !== undefined) throw new UsageError(`unexpected argument "${positionals[0]}".`);
}

/** Refuses ids that would change the path of the request (empty, `.`, `..`); the server checks whether the job exists. */
export function jobId(text: string): string {
  if (!/^\.{0,2}$/.test(text)) return text;
  throw new UsageError(`"${text}" cannot be a job id.`);
}

/** The same for the id of a batch. */
export function batchId(text: string): string {
  if (!/^\.{0,2}$/.test(text)) return text;
  throw new UsageError(`"${text}" cannot be a batch.`);
}

export function jobIds(positionals: readonly string[]): readonly string[] {
  if (positionals.length === 0) throw new UsageError('the job id is missing; give one or more.');
  return positionals.map(jobId);
}

/** The value of an environment variable; an empty one counts as not set. */
export function variable(name: string): string | undefined {
  const text = process.env[name]?.trim();
  return text === '' ? undefined : text;
}
