/**
 * Puts the arguments of a call into the words of a command. There is no shell: a word is a word, whatever a model writes
 * into it.
 *
 * W1  An argument never becomes an option of the program: where it is the beginning of a word, it may not begin with "-",
 *     unless the command has the word "--" before it.
 * W2  A word with a parameter that the call leaves out is left out too.
 */
import { OrchdError } from '../../model/errors.ts';
import type { ToolArguments } from './arguments.ts';
import type { JsonSchema } from './tool.ts';

/** `{name}` stands for the argument of this name. */
const PLACEHOLDER = /\{([A-Za-z_][A-Za-z0-9_-]*)\}/g;
const ONLY_PLACEHOLDER = /^\{([A-Za-z_][A-Za-z0-9_-]*)\}$/;
const END_OF_OPTIONS = '--';

const namesIn = (word: string): string[] => [...word.matchAll(PLACEHOLDER)].map(([, name]) => name as string);

/** Throws INVALID_PARAMS for a placeholder that is no parameter, and for a program that a model could choose. */
export function checkTemplate(tool: string, argv: readonly string[], parameters: JsonSchema): void {
  const invalid = (message: string): OrchdError =>
    new OrchdError('INVALID_PARAMS', `the command "${tool}": ${message}`, { field: 'argv' });
  const [program = ''] = argv;
  if (program === '' || argv.some((word) => word.includes('\0'))) throw invalid('argv begins with a program');
  if (namesIn(program).length > 0) throw invalid('the program may not depend on arguments');
  const known = Object.keys((parameters['properties'] as object | undefined) ?? {});
  const unknown = argv.flatMap(namesIn).find((name) => !known.includes(name));
  if (unknown !== undefined) throw invalid(`"{${unknown}}" in argv is none of its parameters`);
}

/** What is wrong with the arguments, for the model; undefined where they can be words of the command. */
export function wordFault(argv: readonly string[], args: ToolArguments): string | undefined {
  const end = argv.indexOf(END_OF_OPTIONS);
  for (const [at, word] of argv.entries()) {
    const [name] = namesIn(word);
    if (name === undefined) continue;
    const words = wordsFor([word], args);
    if (words.some((each) => each.includes('\0'))) return `"${name}" has a character that is not allowed`;
    const isOption =
      (end < 0 || at < end) && !word.startsWith('-') && words.some((each) => each.startsWith('-'));
    if (isOption) return `"${name}" may not begin with "-"`;
  }
  return undefined;
}

/** A list that is a word by itself becomes several words. */
export const wordsFor = (argv: readonly string[], args: ToolArguments): string[] =>
  argv.flatMap((word) => {
    const only = ONLY_PLACEHOLDER.exec(word)?.[1];
    if (only !== undefined) return textsOf(args[only]);
    if (namesIn(word).some((name) => args[name] === undefined)) return [];
    return [word.replace(PLACEHOLDER, (_, name: string) => textsOf(args[name]).join(','))];
  });

function textsOf(value: unknown): string[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  return [typeof value === 'string' ? value : JSON.stringify(value)];
}
