/** The files of the repository as the rules read them; TypeScript files with their syntax and imports. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { type Import, importsOf } from './imports.ts';
import { type Syntax, syntaxOf } from './syntax.ts';

export type Files = ReadonlyMap<string, string>;

export interface Source extends Syntax {
  readonly path: string;
  readonly text: string;
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
      const syntax = syntaxOf(text);
      return { path, text, ...syntax, imports: importsOf(path, syntax.nodes) };
    });
}

/** The published files: src without its tests. */
export const productSources = (sources: readonly Source[]): Source[] =>
  sources.filter(({ path }) => path.startsWith('src/') && !isTest(path));
