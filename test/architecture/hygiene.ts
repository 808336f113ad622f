/** Things that must not be in the repository at all. */
import { type Files, isTest, type Source } from './source.ts';
import { type Node, nameOf, ownerOf } from './syntax.ts';

/** Files that no rule can read, syntax that Node cannot erase, and tests that would silence the others. */
export function syntaxViolations(sources: readonly Source[]): string[] {
  return sources.flatMap(({ path, nodes, parseError }) => {
    const mayBeMarked = isTest(path) || path.startsWith('test/');
    return [
      ...(parseError ? [`${path}:${parseError.line}: cannot be parsed: ${parseError.message}`] : []),
      ...nodes.flatMap(({ node, line }) => {
        const what =
          notErased(node) ?? (mayBeMarked && isMarkedOnly(node) ? 'a test marked only' : undefined);
        return what === undefined ? [] : [`${path}:${line}: holds ${what}`];
      }),
    ];
  });
}

function notErased(node: Node): string | undefined {
  if (node.type === 'TSEnumDeclaration') return 'an enum';
  if (node.type !== 'TSModuleDeclaration') return undefined;
  // `declare module 'name'` and `declare global` add types to what is there already.
  return node.id.type === 'StringLiteral' || node.kind === 'global' ? undefined : 'a namespace';
}

const RUNNERS = new Set(['test', 'it', 'describe', 'suite']);

function isMarkedOnly(node: Node): boolean {
  if (node.type === 'ObjectProperty')
    return nameOf(node.key) === 'only' && node.value.type === 'BooleanLiteral' && node.value.value;
  const owner = ownerOf(node);
  return owner !== undefined && nameOf(node) === 'only' && RUNNERS.has(nameOf(owner) ?? '');
}

/**
 * A path of the machine it was written on, or the host packages came from, works for nobody else; a merge that was
 * not finished, for nobody at all.
 */
export function textViolations(files: Files): string[] {
  return [...files].flatMap(([path, text]) => [
    ...find(path, text, ABSOLUTE_PATH, 'an absolute path'),
    ...find(path, text, path.endsWith('.npmrc') ? REGISTRY_LINE : REGISTRY_HOST, 'a registry host'),
    ...find(path, text, CONFLICT, 'what a merge has left'),
  ]);
}

// Put together from parts, so that this file does not hold what it forbids.
const MACHINE_FOLDERS = ['work', 'root', 'home', 'Users'].join('|');
const ABSOLUTE_PATH = new RegExp(String.raw`(?<![\w.}/~-])/(?:${MACHINE_FOLDERS})/[\w.-]`, 'g');
const REGISTRY_HOST = /"resolved":\s*"https?:|\bregistry\.[a-z0-9-]+\.(?:org|com|net|dev|cn)\b/g;
const REGISTRY_LINE = /^.*registry\s*=/gm;
const CONFLICT = /^(?:<{7}|>{7}) /gm;

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;

const find = (path: string, text: string, pattern: RegExp, what: string): string[] =>
  [...text.matchAll(pattern)].map((match) => `${path}:${lineAt(text, match.index)}: holds ${what}`);
