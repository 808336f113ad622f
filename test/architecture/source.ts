/** What the rules read: the files of the repository, and for TypeScript also their mask and imports. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { maskOf } from './mask.ts';

export type Files = ReadonlyMap<string, string>;

export interface Import {
  /** Path from the repository's root for a relative import, else the name as written. */
  readonly target: string;
  readonly relative: boolean;
  /** `type` is erased; `thread` is a file named by URL, as worker threads are started. */
  readonly kind: 'value' | 'type' | 'thread';
  readonly line: number;
}

export interface Source {
  readonly path: string;
  readonly text: string;
  readonly mask: string;
  readonly imports: readonly Import[];
}

const NOT_OURS = new Set(['node_modules', '.git', 'dist', 'data', 'golden', 'results']);
const TEXT_FILE = /\.(ts|js|mjs|json|ya?ml|md|sql|html|css|sh|txt)$|(^|\/)\.ci\/|(^|\/)(LICENSE|\.npmrc)$/;

/** Text files under a folder, by path from it. */
export function readFiles(root: string, folder = ''): Map<string, string> {
  const found = new Map<string, string>();
  for (const item of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = posix.join(folder, item.name);
    if (item.isDirectory() && !NOT_OURS.has(item.name)) {
      for (const [inner, text] of readFiles(root, path)) found.set(inner, text);
    } else if (item.isFile() && TEXT_FILE.test(path)) {
      found.set(path, readFileSync(join(root, path), 'utf8'));
    }
  }
  return found;
}

export const isTest = (path: string): boolean => path.endsWith('.test.ts');

/** TypeScript sources of a file set. */
export function sourcesOf(files: Files): Source[] {
  return [...files]
    .filter(([path]) => path.endsWith('.ts'))
    .map(([path, text]) => {
      const mask = maskOf(text);
      return { path, text, mask, imports: importsOf(path, text, mask) };
    });
}

/** What is published: src without its tests. */
export const productSources = (sources: readonly Source[]): Source[] =>
  sources.filter(({ path }) => path.startsWith('src/') && !isTest(path));

export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;

// Clauses hold names, braces, commas and stars only; the specifier's text is blank in the mask.
const CLAUSE = String.raw`[\w$\s{},*]*`;
const FROM = new RegExp(String.raw`\b(?:import|export)\b(${CLAUSE}?)\bfrom\s*(['"])`, 'g');
const BARE = /\bimport\s*(['"])/g;
const CALLED = /\bimport\s*\(\s*(['"`])/g;
const BY_URL = /\bnew\s+URL\s*\(\s*(['"`])(?=\s*['"`]\s*,\s*import\.meta\.url)/g;

function importsOf(path: string, text: string, mask: string): Import[] {
  const found: Import[] = [];
  const add = (match: RegExpExecArray, kind: Import['kind']): void => {
    const start = match.index + match[0].length;
    const quote = match.at(-1)!;
    const name = text.slice(start, text.indexOf(quote, start));
    const relative = name.startsWith('.');
    const target = relative ? posix.join(posix.dirname(path), name) : name;
    found.push({ target, relative, kind, line: lineAt(text, match.index) });
  };
  for (const match of mask.matchAll(FROM)) {
    // A clause such as `{ type A }` keeps its import at run time; only `import type` is erased as a whole.
    add(match, /^\s+type\b(?!\s*,|\s+from\b)/.test(match[1]!) ? 'type' : 'value');
  }
  for (const match of mask.matchAll(BARE)) add(match, 'value');
  for (const match of mask.matchAll(CALLED)) add(match, 'value');
  for (const match of mask.matchAll(BY_URL)) add(match, 'thread');
  return found;
}
