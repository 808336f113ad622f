/** Files and folders are created where their modes are set: kit/env/private-files.ts, and the disk that uses it. */
import { productSources, type Source } from './source.ts';
import { literalText, type Node, nameOf, ownerOf } from './syntax.ts';

const ALLOWED = /^src\/kit\/env\//;

/** Calls of node:fs that create a file or folder with the mode that the umask leaves. */
const CREATING = /^(mkdir|mkdtemp|writeFile|appendFile|copyFile|cp|createWriteStream)(Sync)?$/;

export function fileModeViolations(sources: readonly Source[]): string[] {
  return productSources(sources)
    .filter(({ path }) => !ALLOWED.test(path))
    .filter(({ imports }) => imports.some(({ target }) => /^(node:)?fs(\/promises)?$/.test(target)))
    .flatMap(({ path, nodes }) =>
      nodes
        .filter(({ node }) => creates(node))
        .map(({ line }) => `${path}:${line}: creates a file past kit/env/private-files.ts`),
    );
}

function creates(node: Node): boolean {
  if (node.type !== 'CallExpression') return false;
  const name = nameOf(node.callee as Node) ?? '';
  const [, second, third] = node.arguments as Node[];
  if (/^open(Sync)?$/.test(name) && ownerOf(node.callee as Node) !== undefined)
    return second !== undefined && literalText(second) !== 'r';
  // A mode of its own is fine for a file beside all data.
  return CREATING.test(name) && third?.type !== 'ObjectExpression';
}
