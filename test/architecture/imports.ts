/** The imports of a file: declarations, calls of import(), types, and files of worker threads. */
import { posix } from 'node:path';
import { literalText, type Node, nameOf, ownerOf, type VisitedNode } from './syntax.ts';

export interface Import {
  /** Path from the repository's root for a relative import, else the name as written. */
  readonly target: string;
  readonly relative: boolean;
  /** `type` is erased; `thread` is a file named by URL, as worker threads are started. */
  readonly kind: 'value' | 'type' | 'thread';
  /** True for `export … from`. */
  readonly reexported: boolean;
  readonly line: number;
}

export function importsOf(path: string, nodes: readonly VisitedNode[]): Import[] {
  return nodes.flatMap(({ node, line }) => {
    const found = importedBy(node);
    const name = literalText(found?.source);
    if (found === undefined || name === undefined) return [];
    const relative = name.startsWith('.');
    const target = relative ? posix.join(posix.dirname(path), name) : name;
    return [{ target, relative, kind: found.kind, reexported: node.type.startsWith('Export'), line }];
  });
}

interface ImportSource {
  readonly source: Node | null | undefined;
  readonly kind: Import['kind'];
}

function importedBy(node: Node): ImportSource | undefined {
  switch (node.type) {
    case 'ImportDeclaration':
      // A clause such as `{ type A }` keeps its import at run time; only `import type` is erased as a whole.
      return { source: node.source, kind: node.importKind === 'type' ? 'type' : 'value' };
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      return { source: node.source, kind: node.exportKind === 'type' ? 'type' : 'value' };
    case 'ImportExpression':
      return { source: node.source, kind: 'value' };
    case 'TSImportType':
      return { source: node.source, kind: 'type' };
    case 'TSExternalModuleReference':
      return { source: node.expression, kind: 'value' };
    case 'NewExpression': {
      const [source, base] = node.arguments;
      const named = nameOf(node.callee) === 'URL' && base !== undefined && isOwnUrl(base);
      return named ? { source, kind: 'thread' } : undefined;
    }
    default:
      return undefined;
  }
}

const isOwnUrl = (node: Node): boolean => nameOf(node) === 'url' && ownerOf(node)?.type === 'MetaProperty';
