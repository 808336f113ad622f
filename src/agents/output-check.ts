/** The check of an answer against the form that its agent promises (`output`). */
import { argumentsCheck } from './tools/arguments.ts';

/** Models like to put JSON into a block of code. */
const FENCED = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/;

/** Throws INVALID_PARAMS for a schema that cannot be used. */
export function outputCheck(output: Readonly<Record<string, unknown>>): (text: string) => string | undefined {
  const check = argumentsCheck({ name: 'output', parameters: output });
  return (text) => {
    const checked = check(FENCED.exec(text)?.[1] ?? text);
    return checked.ok ? undefined : checked.message;
  };
}
