/** Files and functions stay small enough to be read in one go. */
import type { Source } from './source.ts';
import { lineAt, productSources } from './source.ts';

const FILE_LINES = 400;
const FILE_LINES_AT_MOST = 600;
const FUNCTION_LINES = 70;

/** Files that may have more than 400 lines (never more than 600), each with the reason. */
const LONG_FILES: Readonly<Record<string, string>> = {};

export function sizeViolations(sources: readonly Source[]): string[] {
  return productSources(sources).flatMap((source) => [...tooLong(source), ...longFunctions(source)]);
}

function tooLong({ path, text }: Source): string[] {
  const lines = text.trimEnd().split('\n').length;
  const limit = Object.hasOwn(LONG_FILES, path) ? FILE_LINES_AT_MOST : FILE_LINES;
  return lines > limit ? [`${path}: has ${lines} lines, may have ${limit}`] : [];
}

function longFunctions({ path, mask }: Source): string[] {
  return functionBodies(mask).flatMap(({ start, end }) => {
    const first = lineAt(mask, start);
    const lines = lineAt(mask, end) - first + 1;
    if (lines <= FUNCTION_LINES) return [];
    return [`${path}:${first}: a function of ${lines} lines, may have ${FUNCTION_LINES}`];
  });
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Bodies in braces of functions, methods and arrows; found by what stands before the brace. */
export function functionBodies(mask: string): Span[] {
  const partner = matchBrackets(mask);
  const arrows = [...mask.matchAll(/=>\s*(?=\{)/g)].map((match) => match.index + match[0].length);
  const others = [...mask.matchAll(/\(/g)]
    .filter((match) => isParameterList(mask, match.index))
    .map((match) => bodyAfter(mask, (partner.get(match.index) ?? mask.length) + 1, partner))
    .filter((start) => start !== undefined);
  return [...arrows, ...others].map((start) => ({ start, end: partner.get(start) ?? mask.length }));
}

const CONTROL = /^(if|for|while|switch|catch|with|await|return)$/;

/** A parenthesis after a name may hold parameters; one after `if` and the like cannot. */
function isParameterList(mask: string, open: number): boolean {
  const before = mask.slice(Math.max(0, open - 200), open).trimEnd();
  const word = /[\w$]+$/.exec(before)?.[0];
  return word === undefined ? /[>\]'"]$/.test(before) : !CONTROL.test(word);
}

/** The brace that opens the body after a parameter list and a possible return type. */
function bodyAfter(mask: string, from: number, partner: ReadonlyMap<number, number>): number | undefined {
  const skipSpace = (at: number): number => at + /^\s*/.exec(mask.slice(at, at + 500))![0].length;
  let at = skipSpace(from);
  if (mask[at] === '{') return at;
  if (mask[at] !== ':') return undefined;
  // In a type a brace opens an object type where an operand is due, and the body where none is.
  let operandDue = true;
  at += 1;
  while (at < mask.length) {
    at = skipSpace(at);
    const unit = mask[at]!;
    const word = /^[\w$.]+/.exec(mask.slice(at, at + 200))?.[0];
    if (unit === '{' && !operandDue) return at;
    if (word !== undefined) {
      operandDue = /^(is|asserts|keyof|typeof|readonly|extends|infer)$/.test(word);
      at += word.length;
    } else if ('{[('.includes(unit)) {
      at = (partner.get(at) ?? mask.length) + 1;
      operandDue = false;
    } else if ('|&<,'.includes(unit) || mask.startsWith('=>', at)) {
      operandDue = true;
      at += unit === '=' ? 2 : 1;
    } else if ('>\'"`'.includes(unit)) {
      operandDue = false;
      at += 1;
    } else {
      return undefined;
    }
  }
  return undefined;
}

const CLOSING: Readonly<Record<string, string>> = { '{': '}', '(': ')', '[': ']' };

/** Offset of each opening bracket → offset of the one that closes it. */
function matchBrackets(mask: string): Map<number, number> {
  const partner = new Map<number, number>();
  const open: number[] = [];
  for (let at = 0; at < mask.length; at += 1) {
    const unit = mask[at]!;
    if (unit in CLOSING) open.push(at);
    else if (open.length > 0 && unit === CLOSING[mask[open.at(-1)!]!]) partner.set(open.pop()!, at);
  }
  return partner;
}
