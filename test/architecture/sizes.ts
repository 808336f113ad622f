/** Files and functions stay small enough to be read in one go. */
import { productSources, type Source } from './source.ts';
import type { Node } from './syntax.ts';

const FILE_LINES = 400;
const FILE_LINES_AT_MOST = 600;
const FUNCTION_LINES = 70;

/** Files that may have more than 400 lines (never more than 600), each with the reason. */
export const LONG_FILES: Readonly<Record<string, string>> = {};

export function sizeViolations(sources: readonly Source[]): string[] {
  return productSources(sources).flatMap((source) => [...tooLong(source), ...longFunctions(source)]);
}

function tooLong({ path, text }: Source): string[] {
  const lines = text.trimEnd().split('\n').length;
  const limit = Object.hasOwn(LONG_FILES, path) ? FILE_LINES_AT_MOST : FILE_LINES;
  return lines > limit ? [`${path}: has ${lines} lines, may have ${limit}`] : [];
}

function longFunctions({ path, nodes }: Source): string[] {
  return nodes.flatMap(({ node }) => {
    const { start, end } = bodyOf(node)?.loc ?? {};
    if (start === undefined || end === undefined) return [];
    const lines = end.line - start.line + 1;
    if (lines <= FUNCTION_LINES) return [];
    return [`${path}:${start.line}: a function of ${lines} lines, may have ${FUNCTION_LINES}`];
  });
}

/** The braces of a function, method or arrow: whatever has parameters and a block. */
function bodyOf(node: Node): Node | undefined {
  if (!('params' in node && 'body' in node)) return undefined;
  const body = node.body as Node | null | undefined;
  return body?.type === 'BlockStatement' ? body : undefined;
}
